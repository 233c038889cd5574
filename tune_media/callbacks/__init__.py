"""The logger callbacks: drop-ins for Ray's own that log media, too."""
