OpenSpielGame = UnsupportedGame = from_openspiel = None
