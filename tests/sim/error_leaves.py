"""The errors that a group holds."""


def leaves(error):
    """The errors inside nested ExceptionGroups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves(part)]
    return [error]
