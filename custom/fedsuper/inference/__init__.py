"""From a finished federation to masks: the super model's folder, the threshold gate, prediction modes, the predictor."""
