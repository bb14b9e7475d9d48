"""Commands that look after what symlight keeps."""
