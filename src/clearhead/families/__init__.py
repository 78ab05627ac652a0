"""Where models come from: files, presets, and the only place that knows the names of model families."""
