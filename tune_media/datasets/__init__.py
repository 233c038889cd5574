"""Episodes of a finished experiment as datasets for offline learning: Minari's and LeRobot's."""
