"""A folder that is served on this machine, for fetches without a network."""

import contextlib
import functools
import http.server
import threading


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, sends lengths of files or none, and breaks off after some bytes."""

    def __init__(self, *args, settings, **options):
        """Keeps the settings, to which `do_GET` adds the requests."""
        self.settings = settings
        super().__init__(*args, **options)

    def log_message(self, *args):
        """Logs nothing."""

    def do_GET(self):
        """Sends a file, or its beginning."""
        path = self.translate_path(self.path)
        self.settings['requests'].append(self.path)
        try:
            with open(path, 'rb') as file:
                data = file.read()
        except OSError:
            self.send_error(404)
            return
        self.send_response(200)
        if self.settings['has_length']:
            self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data[: self.settings['max_bytes']])


@contextlib.contextmanager
def serving(folder, **options):
    """Serves a folder; yields its address, and settings, whose `requests` lists all so far."""
    settings = {'has_length': True, 'max_bytes': None, 'requests': [], **options}
    handler = functools.partial(Handler, directory=str(folder), settings=settings)
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.02,), daemon=True
        )
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}', settings
        finally:
            server.shutdown()
            thread.join()
