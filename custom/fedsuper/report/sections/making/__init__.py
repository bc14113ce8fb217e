"""How it came about: training, the selector, what each site was handed, tuning, what was run."""
