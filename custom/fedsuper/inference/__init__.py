"""From a finished federation to masks: the super model's folder, the threshold gate, modes, the predictor."""
