"""What a user runs: one study, a comparison, a site left out, the demonstration."""
