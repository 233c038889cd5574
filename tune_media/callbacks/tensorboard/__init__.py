"""The TensorBoardX logger callback."""

from tune_media.values.installing import pip_install

try:
    import tensorboardX  # noqa: F401 - everything here needs it
except ImportError as error:
    needs = f"TensorBoard's events need tensorboardX, which cannot be imported ({error}): "
    raise ImportError(needs + pip_install("tensorboard")) from error
