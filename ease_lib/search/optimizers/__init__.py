"""Search methods behind one ask/tell interface; `registry` knows them by name."""
