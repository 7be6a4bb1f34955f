"""Test what may be connected to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tribunal.retrievers.web.fetch.target import FORBIDDEN, why_forbidden


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.216.34", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
     "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255", "169.253.255.255", "168.63.129.15",
     "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2400:cb00::1", "2001:4860:4860::8888", "2001:200::1"],
)  # fmt: skip
def test_public_addresses(address: str) -> None:
    assert why_forbidden(ip_address(address)) is None


@pytest.mark.parametrize("address", ["4000::1", "200::1", "e000::1", "64:ff9b:2::1", "1::"])
def test_what_is_not_global_unicast(address: str) -> None:
    assert why_forbidden(ip_address(address)) == "outside global unicast (2000::/3)"


def test_the_message_names_the_narrowest_use_first() -> None:
    assert (
        why_forbidden(ip_address("169.254.169.254"))
        == "a cloud's metadata service (169.254.169.254/32)"
    )
    assert why_forbidden(ip_address("169.254.1.1")) == "link-local (169.254.0.0/16)"
    assert (
        why_forbidden(ip_address("fd00:ec2::254")) == "a cloud's metadata service (fd00:ec2::/32)"
    )
    assert why_forbidden(ip_address("2001:db8::1")) == "documentation (2001:db8::/32)"


def test_every_range_is_reported_under_its_own_name_somewhere() -> None:
    named = {why_forbidden(end) for network, _ in FORBIDDEN for end in (network[0], network[-1])}
    for network, use in FORBIDDEN:
        assert use in named, network


@given(st.ip_addresses())
def test_python_knows_no_private_address_that_we_let_through(
    address: IPv4Address | IPv6Address,
) -> None:
    if why_forbidden(address) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.sampled_from([n for n, _ in FORBIDDEN]), st.data())
def test_every_address_of_every_range_is_forbidden(
    network: IPv4Network | IPv6Network, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, network.num_addresses - 1))
    assert why_forbidden(network[offset]) is not None
