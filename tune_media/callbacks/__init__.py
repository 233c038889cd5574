"""The logger callbacks: drop-ins for Ray's own that put media where people look."""
