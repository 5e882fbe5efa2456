"""A TCP proxy that can do to its connections what networks do."""
import asyncio
import contextlib
import socket
import struct

CHUNK = 65536


def reset(writer):
    """Closes with RST, not with FIN."""
    peer = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Link:
    """One connection through a proxy: up to the server, down to the client."""

    def __init__(self, down, up):
        self.down, self.up = down, up
        self.is_torn = False  # bytes of it were dropped: it is of no more use


class Gate:
    """Holds back what goes up to the server and has all of these words, until the gate is open,
    for a second at most."""

    def __init__(self, *words):
        self.words, self._reached, self._opened = words, asyncio.Event(), asyncio.Event()

    async def reached(self):
        """Returns when something is held back, or nothing has come for a second."""
        await asyncio.wait({asyncio.ensure_future(self._reached.wait())}, timeout=1)

    def open(self):
        self._reached.set()
        self._opened.set()

    async def pass_on(self, data):
        if all(word in data for word in self.words):
            self._reached.set()
            await asyncio.wait({asyncio.ensure_future(self._opened.wait())}, timeout=1)


class Proxy:
    """`mode` is pass, delay, hold, blackhole, drop-replies, cut or refuse."""

    def __init__(self, target_port):
        self.target_port, self.port, self.server = target_port, None, None
        self.mode, self.delay_s, self.budget = "pass", 0, 0
        self.links, self.touched, self.changed = set(), 0, asyncio.Event()
        self.gates = set()

    async def start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def set(self, mode, delay_s=0.0, budget=0):
        self.mode, self.delay_s, self.budget = mode, delay_s, budget
        self.touched = 0
        self.changed.set()
        self.changed = asyncio.Event()

    def heal(self):
        """Lets everything pass again. Links that lost bytes are reset, and a link that was held
        goes on where it was. Returns how much the fault touched."""
        touched = self.touched
        self.set("pass")
        for link in [link for link in self.links if link.is_torn]:
            self._reset(link)
        return touched

    def reset_all(self):
        links = list(self.links)
        for link in links:
            self._reset(link)
        return len(links)

    def half_close_all(self):
        """The client's side of each connection ends; the server may still answer."""
        links = [link for link in self.links if link.up.can_write_eof()]
        for link in links:
            with contextlib.suppress(OSError, RuntimeError):
                link.up.write_eof()
        return len(links)

    def _reset(self, link):
        reset(link.down)
        reset(link.up)

    async def _serve(self, reader, down):
        if self.mode == "refuse":
            self.touched += 1
            reset(down)
            return
        try:
            up_reader, up = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            reset(down)
            return
        link = Link(down, up)
        self.links.add(link)
        try:
            await asyncio.gather(self._pump(link, reader, up, is_reply=False),
                                 self._pump(link, up_reader, down, is_reply=True))
        finally:
            self.links.discard(link)
            for writer in (down, up):
                with contextlib.suppress(OSError, RuntimeError):
                    writer.close()

    async def _pump(self, link, reader, writer, is_reply):
        try:
            while data := await reader.read(CHUNK):
                for gate in () if is_reply else tuple(self.gates):
                    await gate.pass_on(data)
                if await self._let_pass(link, data, is_reply):
                    writer.write(data)
                    await writer.drain()
            while self.mode in ("hold", "blackhole"):  # then not even the end passes
                await self.changed.wait()
            if is_reply:  # a server that closes has nothing more to say or to read
                link.down.close()
                link.up.close()
            else:
                writer.write_eof()
        except (OSError, RuntimeError):
            self._reset(link)

    async def _let_pass(self, link, data, is_reply):
        mode = self.mode
        if mode == "pass":
            return True
        if mode == "drop-replies" and not is_reply:
            return True
        self.touched += 1
        if mode == "delay":
            await asyncio.sleep(self.delay_s)
        elif mode == "hold":
            while self.mode == "hold":
                await self.changed.wait()
        elif mode in ("blackhole", "drop-replies"):
            link.is_torn = True
            return False
        elif mode == "cut":
            self.budget -= len(data)
            if self.budget < 0:
                part = data[:max(0, len(data) + self.budget)]
                with contextlib.suppress(OSError, RuntimeError):
                    (link.down if is_reply else link.up).write(part)
                    await asyncio.sleep(0.01)
                self._reset(link)
                return False
        return True
