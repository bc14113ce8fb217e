"""The one exception a user ever sees."""


class FedSuperError(Exception):
    """A problem the user can mend.

    The message is one line that says who is concerned, what was expected, what came, and what to do;
    the command line prints it as it is and exits non-zero, without a traceback.
    """
