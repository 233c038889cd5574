"""The TensorBoardX logger callback."""
