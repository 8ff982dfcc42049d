"""What a failure means and says: the vocabulary, the envelope, the map from exceptions, and the way between them."""
