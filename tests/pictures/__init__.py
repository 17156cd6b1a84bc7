"""Creates the images and the animation in the README and the documentation."""
