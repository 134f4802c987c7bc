"""An executor without processes."""

import concurrent.futures


class AtOnce:
    """An executor that runs what it is given when it is given."""

    def submit(self, function, *arguments):
        """Runs it."""
        future = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future
