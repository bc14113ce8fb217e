"""What an attacker learns from what a site sends, measured with and without privacy."""
