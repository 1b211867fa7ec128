"""What is done to a registry so that it fails."""
