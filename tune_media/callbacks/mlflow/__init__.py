"""The MLflow logger callback."""
