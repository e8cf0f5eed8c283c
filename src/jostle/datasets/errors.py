"""What can be wrong with data: one family, so that a caller can tell a user's files from a bug."""


class DataError(ValueError):
    """A file or a record is not what was expected; the message names it and says what was."""


class MissingDataError(DataError):
    """A file is not here and could not be fetched; the message says where from and where to put it."""
