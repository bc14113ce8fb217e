"""Eyes as hospitals see them: varied anatomy, disease and doubtful borders, from cameras and hands that differ."""
