"""The W&B logger callback."""
