"""The values that travel from the env runners to the loggers: frozen, picklable, without threads or storage."""
