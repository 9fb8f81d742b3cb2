"""Whether an access control list lets a caller in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.components.principals import Principal
    from greenroom.components.security import Acl, Matcher

Test = Callable[["Principal"], bool]


class AclCheck:
    """An access control list, ready to be asked.

    Args:
        acl: Who may call.
        own_name: The service that asks; it always may call itself.

    Example:
        >>> from greenroom.components import Acl, Principal
        >>> check = AclCheck(Acl(allow=[Acl.service("bill*")]), own_name="shop")
        >>> check.allows(Principal(service="billing")), check.allows(Principal("ada"))
        (True, False)
    """

    def __init__(self, acl: Acl, *, own_name: str) -> None:
        self.deny_code = acl.deny_code
        self._own_name = own_name
        self._allow = [_test(one) for one in acl.allow]
        self._deny = [_test(one) for one in acl.deny]

    def allows(self, principal: Principal) -> bool:
        """Whether some `allow` matches and no `deny` does."""
        if principal.service == self._own_name:
            return True
        return any(test(principal) for test in self._allow) and not any(
            test(principal) for test in self._deny
        )


def _test(matcher: Matcher) -> Test:
    if matcher.kind == "all":
        return lambda _: True
    if matcher.kind == "internet":
        return lambda principal: principal.is_internet
    # `*` alone is special, so that a name with other punctuation means just itself.
    pattern = re.compile(".*".join(re.escape(part) for part in matcher.pattern.split("*")))
    return lambda principal: (
        principal.service is not None and pattern.fullmatch(principal.service) is not None
    )
