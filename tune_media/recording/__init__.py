"""Records episodes on an env runner, whatever framework steps the env."""
