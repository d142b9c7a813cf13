"""Which addresses may be connected to: checked as written, checked as resolved, and pinned for the connection.

A URL is checked twice. :func:`check_url` reads it as it is written, without asking anybody, and refuses what no
client should be given. :class:`PinnedTransport` then resolves its host once, refuses unless *every* answer is
public, and connects to an address that was checked, so that there is no second answer to be fooled by.

What is public stands in a list of our own. The standard library's opinion differs from one patch release to the
next, and leaves out addresses that only a cloud's insides answer to.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import httpcore2
    import httpx2

__all__ = [
    "BodyTooLargeError",
    "PinnedTransport",
    "RefusedURLError",
    "Resolver",
    "Target",
    "check_url",
    "is_public",
    "url_allowed",
]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host and a port, as text."""

# The registries of special-purpose addresses (IANA), without those few that are meant to be reached from
# anywhere, and with what clouds answer to.
_SPECIAL_V4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by the customers of a carrier; one cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; another cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
"""All that has been handed out for use anywhere. Whatever is outside of it is not public."""

_SPECIAL_V6 = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, identifiers that are no addresses
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
# Where an IPv4 address stands inside an IPv6 one, and how far from its right end.
_EMBEDDED = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # translated by NAT64
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4
)
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})

_METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "instance-data"})
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")
_PORTS = {"http": 80, "https": 443}
_MOST_ANSWERS = 8
"""How many answers of a resolver are tried."""

_STAGGER = 0.25
"""How many seconds an address has to itself before the next one is tried beside it."""

_SLICE = 64 * 1024
_STREAM_TYPE = "text/event-stream"
_WRITE_IT = "write it as https://host[:port]/path, with an ASCII host"


class RefusedURLError(ValueError):
    """A URL that is not connected to.

    Attributes:
        message: What is wrong with it, as the rest of a sentence about it. It names no credentials.
        hint: What to do about it.
        private: Whether all that is wrong with it is that its address is not public.
    """

    def __init__(self, message: str, hint: str, *, private: bool = False) -> None:
        super().__init__(f"{message} ({hint})")
        self.message = message
        self.hint = hint
        self.private = private


class BodyTooLargeError(Exception):
    """The body of a response is longer than the cap, once it is decoded.

    Attributes:
        cap: The most bytes that would have been taken.
    """

    def __init__(self, cap: int) -> None:
        super().__init__(f"the answer is longer than {cap} bytes")
        self.cap = cap


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads, in its plain form.

    Attributes:
        scheme: http or https.
        host: The name in lower case and without a dot at its end, or the plain form of a literal address.
        port: The port, the scheme's own where the URL names none.
        address: The address, where the host is a literal one in whatever spelling.
    """

    scheme: str
    host: str
    port: int
    address: Address | None


# As it is written.


def check_url(url: str, *, allow_private: bool = False) -> Target:
    """Check a URL as it is written: its scheme, its form, and a host that is a literal address.

    A host name is not looked up.

    Args:
        url: The URL.
        allow_private: Whether an address may be one that is not public. Everything else is checked all the same.

    Raises:
        RefusedURLError: If it cannot be used.
    """
    if any(char == "\\" or char.isspace() or not char.isprintable() for char in url):
        raise RefusedURLError("holds a space, a control character or a backslash", "write a plain http(s) address")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise RefusedURLError("is not a valid address", _WRITE_IT) from None
    if parts.scheme not in _PORTS:
        raise RefusedURLError(f"has the scheme {parts.scheme!r}", "use http or https")
    if "@" in parts.netloc:
        raise RefusedURLError("holds credentials", "put them into headers, as a ${env:NAME} reference")
    found = _AUTHORITY.fullmatch(parts.netloc)
    if found is None:
        raise RefusedURLError("has no valid host", _WRITE_IT)
    port = int(found[2]) if found[2] is not None else _PORTS[parts.scheme]
    return _check_target(parts.scheme, found[1], port, allow_private=allow_private)


def url_allowed(url: str, resolver: Callable[[str], Iterable[str]]) -> bool:
    """Tell whether a URL may be connected to, given what a resolver says about its host.

    Args:
        url: The URL.
        resolver: Gives the addresses of a host name, as text. Asked at most once, and never for a literal address.
    """
    try:
        target = check_url(url)
        if target.address is None:
            _checked_answers(target.host, list(resolver(target.host)), allow_private=False)
    except (RefusedURLError, OSError):
        return False
    return True


def is_public(address: Address) -> bool:
    """Tell whether an address can be reached from anywhere, and so can every other that stands inside it."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    for network, shift in _EMBEDDED:
        if address in network:
            return is_public(_inner(address, shift))
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP and not is_public(_inner(address, 0)):
        return False
    return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)


def _inner(address: ipaddress.IPv6Address, shift: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address((int(address) >> shift) & 0xFFFF_FFFF)


def _check_target(scheme: str, host: str, port: int, *, allow_private: bool) -> Target:
    if not 1 <= port <= 65535:
        raise RefusedURLError(f"has the port {port}", "a port is a number from 1 to 65535")
    address = _literal(host)
    name = str(address) if address is not None else _host_name(host)
    private = not is_public(address) if address is not None else _is_inside(name)
    if private and not allow_private:
        raise _not_public(host)
    return Target(scheme, name, port, address)


def _literal(host: str) -> Address | None:
    """Read a host that is a literal address, in every spelling that some resolver takes for one."""
    if ":" in host or host.startswith("["):
        try:
            return ipaddress.IPv6Address(host.removeprefix("[").removesuffix("]"))
        except ValueError:
            raise RefusedURLError("has no valid host", _WRITE_IT) from None
    pieces = host.removesuffix(".").split(".")
    if not _NUMBER.fullmatch(pieces[-1]):
        return None
    # No name ends in a number, so what follows is an address or nothing.
    try:
        *front, last = [_number(piece) for piece in pieces]
    except ValueError:
        raise RefusedURLError(f"has the host {host!r}, which is no address", _WRITE_IT) from None
    if len(front) > 3 or any(piece > 255 for piece in front) or last >= 256 ** (4 - len(front)):
        raise RefusedURLError(f"has the host {host!r}, which is no address", _WRITE_IT)
    return ipaddress.IPv4Address(sum(piece << (24 - 8 * place) for place, piece in enumerate(front)) + last)


def _number(piece: str) -> int:
    if not _NUMBER.fullmatch(piece):
        raise ValueError(piece)
    if piece[:2] in ("0x", "0X"):
        return int(piece[2:] or "0", 16)
    return int(piece, 8 if len(piece) > 1 and piece.startswith("0") else 10)


def _host_name(host: str) -> str:
    name = host.removesuffix(".").lower()
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise RefusedURLError("has no valid host", _WRITE_IT)
    return name


def _is_inside(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or name in _METADATA_HOSTS


def _not_public(host: str) -> RefusedURLError:
    return RefusedURLError(f"host {host!r} is not a public address", "use a public host", private=True)


# As it is resolved.


def _checked_answers(host: str, answers: Sequence[str], *, allow_private: bool) -> list[str]:
    """Return the answers in their plain form, unless one of them, or there being none, is a reason to refuse."""
    if not answers:
        raise RefusedURLError(f"host {host!r} has no address", "correct the host's name")
    plain: dict[str, None] = {}
    for answer in answers:
        try:
            address = ipaddress.ip_address(answer.partition("%")[0])
        except ValueError:
            raise RefusedURLError(f"host {host!r} has an address that cannot be read", "check the resolver") from None
        if not allow_private and not is_public(address):
            raise _not_public(host)
        plain[answer if allow_private else str(address)] = None
    return list(plain)


async def _resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(where[0]) for *_, where in found]


class _Connector(Protocol):
    """The part of a network backend that opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream: ...


class _PinnedBackend:
    """Opens connections to addresses that were checked, whatever the name."""

    def __init__(self, resolver: Resolver, connector: _Connector, allow_private: Callable[[], bool]) -> None:
        self._resolver = resolver
        self._connector = connector
        self._allow_private = allow_private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve once, check all answers, and connect to the one of them that takes the connection first."""
        import httpcore2

        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host!r} was not resolved in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"{host!r} could not be resolved: {error.strerror}") from None

        def connect(address: str) -> Awaitable[httpcore2.AsyncNetworkStream]:
            left = None if deadline is None else max(deadline - loop.time(), 0.0)
            return self._connector.connect_tcp(address, port, left, local_address, socket_options)

        return await (connect(addresses[0]) if len(addresses) == 1 else _race(connect, addresses))

    async def _addresses(self, host: str, port: int) -> list[str]:
        allow_private = self._allow_private()
        address = _check_target("http", host, port, allow_private=allow_private).address
        if address is not None:
            return [str(address)]
        answers = await self._resolver(host, port)
        return _checked_answers(host, answers, allow_private=allow_private)[:_MOST_ANSWERS]

    async def connect_unix_socket(self, path: str, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        """Refuse: there is no address to check."""
        raise RefusedURLError("is a socket in the file system", "use http or https")

    async def sleep(self, seconds: float) -> None:
        """Wait, for the pool."""
        await asyncio.sleep(seconds)


async def _race(
    connect: Callable[[str], Awaitable[httpcore2.AsyncNetworkStream]], addresses: Sequence[str]
) -> httpcore2.AsyncNetworkStream:
    """Try one address after the other, beside those that have not answered yet, so that a dead one costs little."""
    waiting = list(addresses)
    running: set[asyncio.Future[httpcore2.AsyncNetworkStream]] = set()
    failed: BaseException | None = None
    won: httpcore2.AsyncNetworkStream | None = None
    try:
        while won is None and (waiting or running):
            if waiting:
                running.add(asyncio.ensure_future(connect(waiting.pop(0))))
            seconds = _STAGGER if waiting else None
            ended, _ = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                if one.exception() is not None:
                    running.discard(one)
                    failed = one.exception()
                elif won is None:
                    running.discard(one)
                    won = one.result()
    finally:
        await _abandon(running)
    if won is None:
        assert failed is not None
        raise failed
    return won


async def _abandon(attempts: Iterable[asyncio.Future[httpcore2.AsyncNetworkStream]]) -> None:
    for one in attempts:
        one.cancel()
    for ended in await asyncio.gather(*attempts, return_exceptions=True):
        if not isinstance(ended, BaseException):
            await ended.aclose()


class PinnedTransport:
    """A transport for ``httpx2.AsyncClient`` that reaches public addresses only, and caps what comes back.

    Each request is checked as it is written, so a redirect is as well; each connection goes to an address that
    was checked, with the host's name in ``Host``, in the TLS greeting and against the certificate. No proxy of
    the environment is heeded.

    Args:
        resolver: Gives the addresses of a host. None asks the system.
        allow_private: Tells whether addresses that are not public are allowed at this moment.
        body_cap: The most bytes of a response's body, once it is decoded; None for no cap. A stream of events
            has no cap, since it has no end: whoever reads it caps its events.
        connector: Opens the connections. None uses sockets.
        ssl_context: How servers prove who they are. None trusts what the system trusts.
    """

    def __init__(
        self,
        *,
        resolver: Resolver | None = None,
        allow_private: Callable[[], bool] = lambda: False,
        body_cap: int | None = None,
        connector: _Connector | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        import httpcore2
        import httpx2

        sockets = connector or cast("_Connector", httpcore2.AnyIOBackend())
        backend = _PinnedBackend(resolver or _resolve, sockets, allow_private)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context or httpx2.create_ssl_context(),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=cast("httpcore2.AsyncNetworkBackend", backend),
        )
        self._allow_private = allow_private
        self._body_cap = body_cap

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the response with its body still to be read.

        Raises:
            RefusedURLError: If its URL is not connected to.
            httpx2.RequestError: If it fails.
        """
        import httpcore2
        import httpx2

        url = request.url
        host, port = url.raw_host.decode("ascii"), url.port or _PORTS.get(url.scheme, 0)
        if url.scheme not in _PORTS or url.userinfo:
            check_url(str(url))
        target = _check_target(url.scheme, host, port, allow_private=self._allow_private())
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"accept-encoding"]
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=url.raw_scheme,
                host=target.host.encode("ascii") if target.address is not None else url.raw_host,
                port=url.port,
                target=url.raw_path,
            ),
            # What is sent in another coding could not be capped while it is decoded.
            headers=[*headers, (b"accept-encoding", b"gzip, deflate")],
            content=request.stream,
            extensions=request.extensions,
        )
        with _Translated(httpx2):
            got = await self._pool.handle_async_request(sent)
        body = cast("_Stream", got.stream)
        try:
            head = httpx2.Headers(got.headers)
            coding = head.get("content-encoding", "identity").strip().lower()
            decode = _decoder(coding)
        except BaseException as error:
            await body.aclose()
            if isinstance(error, ValueError):
                raise httpx2.DecodingError(str(error)) from None
            raise
        if coding != "identity":
            for name in ("content-encoding", "content-length"):
                head.pop(name, None)
        is_stream = head.get("content-type", "").partition(";")[0].strip().lower() == _STREAM_TYPE
        return httpx2.Response(
            status_code=got.status,
            headers=head,
            stream=_body_class()(body, decode, None if is_stream else self._body_cap),
            extensions=cast("Any", got).extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


# What comes back.


class _Stream(Protocol):
    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class _Translated:
    """Turns an error of the pool into the client's own of the same name."""

    def __init__(self, client: ModuleType) -> None:
        self._client = client

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None and kind.__module__ == "httpcore2":
            own: Any = getattr(self._client, kind.__name__, None)
            if own is not None:
                raise own(str(error)) from error


_Decoder: TypeAlias = Callable[[bytes], Iterator[bytes]]


@functools.cache
def _body_class() -> Callable[[_Stream, _Decoder, int | None], httpx2.AsyncByteStream]:
    import httpx2

    class Body(httpx2.AsyncByteStream):
        """A body that is decoded while it is read, and never longer than its cap."""

        def __init__(self, stream: _Stream, decode: _Decoder, cap: int | None) -> None:
            self._stream = stream
            self._decode = decode
            self._cap = cap

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            size = 0
            with _Translated(httpx2):
                async for chunk in self._stream:
                    try:
                        for piece in self._decode(chunk):
                            size += len(piece)
                            if self._cap is not None and size > self._cap:
                                raise BodyTooLargeError(self._cap)
                            yield piece
                    except zlib.error as error:
                        raise httpx2.DecodingError(str(error)) from None

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Body


def _decoder(coding: str) -> _Decoder:
    if coding == "identity":
        return lambda data: iter((data,))
    if coding in ("gzip", "x-gzip"):
        return _Inflater(16 + zlib.MAX_WBITS)
    if coding == "deflate":
        return _Inflater(zlib.MAX_WBITS)
    raise ValueError(f"the answer is in the coding {coding[:40]!r}, which was not asked for")


class _Inflater:
    """Decodes in pieces of a bounded size, so that a small body cannot become a large one at once."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._inflate = zlib.decompressobj(window)
        self._begun = False

    def __call__(self, data: bytes) -> Iterator[bytes]:
        while not self._inflate.eof:
            try:
                piece = self._inflate.decompress(data, _SLICE)
            except zlib.error:
                # Some servers leave out the head that the standard asks for.
                if self._begun or self._window != zlib.MAX_WBITS:
                    raise
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                piece = self._inflate.decompress(data, _SLICE)
            self._begun = True
            data = self._inflate.unconsumed_tail
            if piece:
                yield piece
            if not data and len(piece) < _SLICE:
                return
