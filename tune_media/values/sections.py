"""The sections of a result that our recorders report: of the training, and of an evaluation."""

EVALUATION, TRAIN = "evaluation", "train"
