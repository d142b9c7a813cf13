"""Only public addresses are connected to, in whatever spelling, by whatever way, and only those that were checked.

Nothing here opens a socket: the resolver and the connect step are recorders.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore2
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.netguard import (
    BodyTooLargeError,
    PinnedTransport,
    RefusedURLError,
    check_url,
    is_public,
    url_allowed,
)

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:4700::1111"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def never(host: str) -> list[str]:
    raise AssertionError(f"{host} was looked up")


# As it is written.


@pytest.mark.parametrize(
    "host",
    [
        # Loopback and private in every spelling: short, decimal, hexadecimal, octal, mixed, with a dot at the end.
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001", "0x7F.1", "0177.0.0.1",
        "0x7f.0.0.01", "127.0.0.1.", "10.0.0.1", "0xa.0.0.1", "012.1", "172.16.0.1", "172.31.255.255",
        "192.168.0.1", "0300.0250.1", "3232235777", "0", "0x", "00000.0", "0.0.0.0", "0.1.2.3",
        # What clouds answer to.
        "169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "100.100.100.200",
        "192.0.0.192", "168.63.129.16", "[fd00:ec2::254]", "metadata.google.internal", "METADATA.google.internal.",
        # Carriers, benchmarks, documentation, relays, multicast, reserved, broadcast.
        "100.64.0.1", "100.127.255.255", "198.18.0.1", "198.19.255.255", "192.0.0.8", "192.0.2.1", "198.51.100.7",
        "203.0.113.9", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "0xffffffff",
        # The newer addresses, and older ones inside them.
        "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[fe80::1]", "[febf::1]", "[fec0::1]", "[fc00::1]", "[fd12::1]",
        "[ff02::1]", "[100::1]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[2001:2::1]", "[2001:10::1]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::7f00:1]", "[::10.0.0.1]",
        "[::ffff:0:7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::a00:5]",
        "[64:ff9b:1::5db8:d822]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:5db8:d822::1]",
        "[2606:4700::5efe:a00:5]", "[2606:4700::200:5efe:a00:5]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
        # Names that never leave the machine.
        "localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.LocalHost.",
    ],
)  # fmt: skip
def test_inside_addresses(host: str) -> None:
    """A literal address that is not public is refused in every spelling, without a lookup, unless it is allowed."""
    url = f"http://{host}:8080/x"
    with pytest.raises(RefusedURLError, match="not a public address") as caught:
        check_url(url)
    assert caught.value.private
    assert not url_allowed(url, never)
    assert check_url(url, allow_private=True).port == 8080


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("8.8.8.8", "8.8.8.8"), ("134744072", "8.8.8.8"), ("0x8.8.2056", "8.8.8.8"), ("172.15.0.1", "172.15.0.1"),
        ("172.32.0.1", "172.32.0.1"), ("100.63.255.255", "100.63.255.255"), ("100.128.0.1", "100.128.0.1"),
        ("192.0.1.1", "192.0.1.1"), ("198.17.0.1", "198.17.0.1"), ("198.20.0.1", "198.20.0.1"),
        ("223.255.255.255", "223.255.255.255"), ("168.63.129.17", "168.63.129.17"), ("169.253.0.1", "169.253.0.1"),
        ("[2606:4700::1111]", "2606:4700::1111"), ("[2A00:1450::5E]", "2a00:1450::5e"),
        ("[64:ff9b::808:808]", "64:ff9b::808:808"), ("[2002:808:808::1]", "2002:808:808::1"),
        ("[2606:4700::5efe:808:808]", "2606:4700::5efe:808:808"), ("[2001:4860:4860::8888]", "2001:4860:4860::8888"),
    ],
)  # fmt: skip
def test_public_addresses(host: str, plain: str) -> None:
    """A public address is allowed, also right beside a range that is not, and is given in its plain form."""
    assert check_url(f"https://{host}/").host == plain
    assert url_allowed(f"https://{host}/", never)


@pytest.mark.parametrize(
    "name",
    [
        "example.com", "EXAMPLE.com.", "10.0.0.5.nip.example", "127.0.0.1.example.com", "localhost.example.com",
        "notlocalhost", "metadata.example.com", "169-254-169-254.example.com", "10.example.com", "0x7f.example.com",
        "xn--bcher-kva.example", "a_b.example.com", "1e100.net", "internal.example", "fe80.example", "1.1.1.1a",
    ],
)  # fmt: skip
def test_names_that_look_like_addresses(name: str) -> None:
    """A host is never refused for what its name looks like, only for where it leads."""
    assert url_allowed(f"https://{name}/mcp", lambda host: [PUBLIC])
    assert not url_allowed(f"https://{name}/mcp", lambda host: ["10.0.0.5"])


@pytest.mark.parametrize(
    "url",
    [
        # A reader and a client could see different hosts.
        "http://127.0.0.1\\@93.184.216.34/", "http://93.184.216.34\\@127.0.0.1/", "http:\\\\127.0.0.1/",
        "http://user@example.com/", "http://user:word@example.com/", "http://@example.com/",
        "http://example.com@127.0.0.1/", "http://[::1]example.com/", "http://example.com[::1]/",
        # Encodings of a host.
        "http://127.0.0.%31/", "http://169.254.169.%32%35%34/", "http://127.0.0.1%09/", "http://%6c%6fcalhost/",
        "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://①⑥⑨.254.169.254/", "http://127。0。0。1/",
        "http://１２７.0.0.1/", "http://ⓛocalhost/", "http://bücher.example/", "http://exam\u00adple.com/",
        # White space and control characters.
        " http://example.com/", "http://example.com/\n", "http://exa\tmple.com/", "http://exa mple.com/",
        "http://example.com/\x00", "http://example.com/\x7f", "http://example.com/\u2028", "http://example.com/\u200b",
        # Not quite an address.
        "http://127.0.0.256/", "http://1.2.3.4.5/", "http://4294967296/", "http://127.0.0.08/",
        "http://1..1/", "http://256.1/", "http://[::1/", "http://[127.0.0.1]/", "http://[v1.a]/", "http://[]/",
        "http://.../", "http://./", "http://a..b/", "http://-a.example/", "http://a-.example/",
        "http:///", "http://", "http:example.com", "//example.com/", "example.com", "",
        "http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "example/",
        # Other schemes and ports.
        "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "gopher://example.com/", "ws://example.com/",
        "http://example.com:0/", "http://example.com:65536/", "http://example.com:8a/", "http://example.com:-1/",
    ],
)  # fmt: skip
def test_malformed_urls(url: str) -> None:
    """What could be read in two ways is refused outright, even where private addresses are allowed."""
    with pytest.raises(RefusedURLError) as caught:
        check_url(url, allow_private=True)
    assert not caught.value.private
    assert not url_allowed(url, lambda host: [PUBLIC])


@pytest.mark.parametrize(
    "answers",
    [
        [], [PUBLIC, "10.0.0.5"], ["10.0.0.5", PUBLIC], ["127.0.0.1"], ["::ffff:127.0.0.1"], ["fe80::1%eth0"],
        [PUBLIC, "64:ff9b::7f00:1"], ["no address"], [PUBLIC, ""],
    ],
)  # fmt: skip
def test_answers(answers: list[str]) -> None:
    """One answer that is not public refuses the host, and so does none, and one that cannot be read."""
    assert not url_allowed("https://mixed.example/", lambda host: answers)


def test_a_resolver_that_fails() -> None:
    """A name that cannot be resolved is not allowed."""

    def fails(host: str) -> list[str]:
        raise OSError(host)

    assert not url_allowed("https://nx.example/", fails)


@given(st.ip_addresses(v=4), st.sampled_from([0, 8, 10, 16]), st.sampled_from([1, 2, 3, 4]))
def test_every_spelling_is_judged_alike(address: ipaddress.IPv4Address, base: int, parts: int) -> None:
    """However an address is spelt, it is judged by what it is."""
    number = int(address)
    pieces = [(number >> shift) & 255 for shift in (24, 16, 8, 0)][: parts - 1]
    pieces.append(number & (256 ** (5 - parts) - 1))
    form = {0: "{}", 10: "{}", 8: "0{:o}", 16: "{:#x}"}[base]
    url = f"http://{'.'.join(form.format(piece) for piece in pieces)}/"
    assert check_url(url, allow_private=True).address == address
    assert url_allowed(url, never) is is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_inside_another(address: ipaddress.IPv4Address) -> None:
    """An older address inside a newer one is never let through where it would not be by itself."""
    number = int(address)
    for inside in (0xFFFF << 32 | number, (0x64FF9B << 96) | number, 0x2002 << 112 | number << 80):
        assert is_public(ipaddress.IPv6Address(inside)) is is_public(address)
    assert not is_public(ipaddress.IPv6Address(number))
    assert is_public(ipaddress.IPv6Address(0x2606_4700 << 96 | 0x5EFE << 32 | number)) is is_public(address)


@given(st.text())
def test_any_text(text: str) -> None:
    """Any text at all is allowed or refused, and nothing else happens."""
    for url in (text, f"http://{text}/", f"http://example.com/{text}"):
        assert url_allowed(url, lambda host: [PUBLIC]) in (True, False)


# As it is connected.


class Wire(httpcore2.AsyncNetworkStream):
    """A connection that was not made. Gives what it was told to give."""

    def __init__(self, recorder: Recorder, answers: Sequence[bytes]) -> None:
        self.recorder = recorder
        self.answers = list(answers)
        self.closed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)
        return self.answers.pop(0) if self.answers else b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.recorder.written += buffer

    async def aclose(self) -> None:
        self.closed = True

    async def start_tls(
        self, ssl_context: object, server_hostname: str | None = None, timeout: float | None = None
    ) -> Wire:
        self.recorder.tls.append(server_hostname)
        return self

    def get_extra_info(self, info: str) -> object:
        return None


class Recorder:
    """The resolver and the connect step: both write down what they are asked for, and go nowhere."""

    def __init__(self, *answers: Sequence[bytes], dns: dict[str, list[list[str]]] | None = None) -> None:
        self.answers = list(answers)
        self.dns = dns or {}
        self.asked: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self.dead: set[str] = set()
        self.silent: set[str] = set()
        self.given_up: list[str] = []
        self.tls: list[str | None] = []
        self.written = b""
        self.wires: list[Wire] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.dns.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> Wire:
        self.connected.append((host, port))
        if host in self.dead:
            raise httpcore2.ConnectError(host)
        if host in self.silent:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.append(host)
        self.wires.append(Wire(self, self.answers.pop(0)))
        return self.wires[-1]

    def client(self, **options: Any) -> httpx2.AsyncClient:
        transport: Any = PinnedTransport(resolver=self.resolve, connector=self, **options)
        return httpx2.AsyncClient(transport=transport, follow_redirects=True, timeout=5)


def answer(body: bytes, **headers: str) -> list[bytes]:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join(["HTTP/1.1 200 OK", f"content-length: {len(body)}", *lines])
    return [head.encode() + b"\r\n\r\n", *(body[start : start + 1000] for start in range(0, len(body), 1000))]


def redirect(location: str) -> list[bytes]:
    return [f"HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()]


async def test_the_checked_address_is_the_one_that_is_dialled() -> None:
    """A host is resolved once, and its checked address is dialled under its own name; a later answer is too late."""
    recorder = Recorder([OK], dns={"rebind.example": [[PUBLIC], ["127.0.0.1"]]})
    async with recorder.client() as client:
        assert (await client.get("https://rebind.example/a")).text == "ok"
        assert (recorder.asked, recorder.connected) == (["rebind.example"], [(PUBLIC, 443)])
        assert recorder.tls == ["rebind.example"]
        assert b"host: rebind.example\r\n" in recorder.written.lower()
    # Another connection asks again, and is checked again.
    async with recorder.client() as client:
        with pytest.raises(RefusedURLError, match="not a public address"):
            await client.get("https://rebind.example/a")
    assert len(recorder.connected) == 1


async def test_an_internationalised_name() -> None:
    """The name that is looked up, greeted and sent is one and the same."""
    recorder = Recorder([OK])
    async with recorder.client() as client:
        await client.get("https://bücher.example/")
    assert recorder.asked == ["xn--bcher-kva.example"] == recorder.tls
    assert b"host: xn--bcher-kva.example\r\n" in recorder.written.lower()


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/", "//127.0.0.1/", "http://2130706433/", "http://inside.example/", "file:///etc/passwd",
        "http://localhost/", "http://[::ffff:7f00:1]/", "http://127。0。0。1/", "http://user@10.0.0.1/",
        "http://user:word@public.example/",
    ],
)  # fmt: skip
async def test_redirects_are_checked(location: str) -> None:
    """Each hop of a redirect is checked, and what is refused is not contacted."""
    recorder = Recorder(redirect(location), [OK], dns={"inside.example": [["10.0.0.5"]]})
    async with recorder.client() as client:
        with pytest.raises((RefusedURLError, httpx2.UnsupportedProtocol, httpx2.RemoteProtocolError)):
            await client.get("http://public.example/")
    assert recorder.connected == [(PUBLIC, 80)]


async def test_redirects_that_are_fine() -> None:
    """A redirect to a public host is followed and resolved by itself; one without end is given up."""
    recorder = Recorder(redirect("https://second.example/x"), [OK], dns={"second.example": [[PUBLIC_6]]})
    async with recorder.client() as client:
        assert (await client.get("http://first.example/")).text == "ok"
    assert recorder.connected == [(PUBLIC, 80), (PUBLIC_6, 443)]
    endless = Recorder(*(redirect("/again") for _ in range(30)))
    async with endless.client() as client:
        with pytest.raises(httpx2.TooManyRedirects):
            await client.get("http://public.example/")


@pytest.mark.parametrize("answers", [[], [PUBLIC, "10.0.0.5"], ["::ffff:127.0.0.1"], ["100.100.100.200"], ["?"]])
async def test_answers_of_the_resolver(answers: list[str]) -> None:
    """Nothing is dialled unless every answer is public."""
    recorder = Recorder([OK], dns={"mixed.example": [answers]})
    async with recorder.client() as client:
        with pytest.raises(RefusedURLError):
            await client.get("http://mixed.example/")
    assert recorder.connected == []


async def test_the_next_address_is_tried() -> None:
    """An address that does not answer gives way to the next one; only the last failure is told."""
    recorder = Recorder([OK], dns={"two.example": [[PUBLIC_6, PUBLIC]]})
    recorder.dead = {PUBLIC_6}
    async with recorder.client() as client:
        assert (await client.get("http://two.example/")).text == "ok"
    assert recorder.connected == [(PUBLIC_6, 80), (PUBLIC, 80)]
    recorder.dead.add(PUBLIC)
    async with recorder.client() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://two.example/")


async def test_an_address_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that swallows everything is tried beside the next one, and given up when that one answers."""
    monkeypatch.setattr("handrail.netguard._STAGGER", 0.02)
    recorder = Recorder([OK], dns={"two.example": [[PUBLIC_6, PUBLIC]]})
    recorder.silent = {PUBLIC_6}
    async with recorder.client() as client:
        assert (await client.get("http://two.example/")).text == "ok"
    assert recorder.given_up == [PUBLIC_6]
    # Whoever gives up the request leaves nothing behind.
    recorder.silent.add(PUBLIC)
    async with recorder.client() as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.get("http://two.example/"), 0.05)
    assert sorted(recorder.given_up) == sorted([PUBLIC_6, PUBLIC_6, PUBLIC])
    assert len(asyncio.all_tasks()) == 1


async def test_private_addresses_for_local_work() -> None:
    """Where private addresses are allowed, only the address check is relaxed, and it is asked each time."""
    allowed = [True]
    recorder = Recorder(
        [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"], dns={"localhost": [["127.0.0.1"]]}
    )
    async with recorder.client(allow_private=lambda: allowed[0]) as client:
        await client.get("http://localhost:8000/")
        assert recorder.connected == [("127.0.0.1", 8000)]
        with pytest.raises((RefusedURLError, httpx2.UnsupportedProtocol)):
            await client.get("ftp://localhost/")
        allowed[0] = False
        with pytest.raises(RefusedURLError):
            await client.get("http://localhost:8000/")
    assert len(recorder.connected) == 1


async def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names is not dialled."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://10.0.0.1:3128")
    recorder = Recorder([OK], [OK])
    async with recorder.client() as client:
        await client.get("http://public.example/")
        await client.get("https://public.example/")
    assert recorder.connected == [(PUBLIC, 80), (PUBLIC, 443)]


async def test_a_resolver_that_hangs() -> None:
    """The time for connecting covers the resolver; what fails there is an error of the client's own kind."""

    async def hangs(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def fails(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    for resolver, error in ((hangs, httpx2.ConnectTimeout), (fails, httpx2.ConnectError)):
        transport: Any = PinnedTransport(resolver=resolver, connector=Recorder())
        async with httpx2.AsyncClient(transport=transport, timeout=0.05) as client:
            with pytest.raises(error):
                await client.get("http://public.example/")


async def test_a_socket_in_the_file_system() -> None:
    """There is no way around the address check."""
    from handrail.netguard import _PinnedBackend

    recorder = Recorder()
    with pytest.raises(RefusedURLError):
        await _PinnedBackend(recorder.resolve, recorder, lambda: True).connect_unix_socket("/run/x.sock")


# What comes back.

BODY = bytes(range(256)) * 40


def raw_deflate(body: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return squeeze.compress(body) + squeeze.flush()


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("identity", bytes),
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("GZIP", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
]


@pytest.mark.parametrize(("coding", "encode"), CODINGS)
async def test_bodies_are_decoded(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A compressed body arrives decoded, and only codings that can be capped are asked for."""
    recorder = Recorder(answer(encode(BODY), content_encoding=coding))
    async with recorder.client(body_cap=len(BODY)) as client:
        response = await client.get("http://public.example/", headers={"accept-encoding": "br"})
        assert response.content == BODY
    assert b"accept-encoding: gzip, deflate\r\n" in recorder.written.lower()


@pytest.mark.parametrize(("coding", "encode"), CODINGS[:2])
async def test_bodies_are_capped(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A body that is longer than the cap once it is decoded is an error, and its connection is closed."""
    recorder = Recorder(answer(encode(BODY), content_encoding=coding))
    async with recorder.client(body_cap=len(BODY) - 1) as client:
        with pytest.raises(BodyTooLargeError) as caught:
            await client.get("http://public.example/")
        assert caught.value.cap == len(BODY) - 1
        assert recorder.wires[0].closed


async def test_a_small_body_that_becomes_a_large_one() -> None:
    """A body is decoded piece by piece, so that the cap is noticed long before all of it is in memory."""
    bomb = gzip.compress(bytes(200 * 1024 * 1024))
    recorder = Recorder(answer(bomb, content_encoding="gzip"))
    async with recorder.client(body_cap=1024 * 1024) as client:
        with pytest.raises(BodyTooLargeError):
            await client.get("http://public.example/")
    assert len(recorder.wires[0].answers) > len(bomb) // 1000 // 2


async def test_a_stream_of_events_has_no_cap() -> None:
    """A stream of events may go on for as long as it likes."""
    recorder = Recorder(answer(BODY, content_type="text/event-stream; charset=utf-8"))
    async with recorder.client(body_cap=10) as client:
        assert len((await client.get("http://public.example/")).content) == len(BODY)


@pytest.mark.parametrize(("coding", "body"), [("br", b"x"), ("gzip, gzip", b"x"), ("gzip", b"no gzip at all")])
async def test_bodies_that_cannot_be_decoded(coding: str, body: bytes) -> None:
    """A body in a coding that was not asked for, or that is not what it says, is an error."""
    recorder = Recorder(answer(body, content_encoding=coding))
    async with recorder.client() as client:
        with pytest.raises(httpx2.DecodingError):
            await client.get("http://public.example/")
        assert recorder.wires[0].closed


async def test_a_body_that_breaks_off() -> None:
    """A body that ends too early is an error of the client's own kind."""
    recorder = Recorder([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok"])
    async with recorder.client() as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("http://public.example/")
