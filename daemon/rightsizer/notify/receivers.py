"""All receivers of the settings, with the routes between them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rightsizer.notify.delivery import DeliveryContext, Outbox
from rightsizer.notify.mail.settings import MailSettings
from rightsizer.notify.receiver import Receiver
from rightsizer.notify.routing import RoutedReceiver
from rightsizer.notify.webhook.settings import WebhookSettings


def receivers_of(
    webhooks: Sequence[WebhookSettings],
    mails: Sequence[MailSettings],
    outbox: Outbox[str],
    context: DeliveryContext,
) -> tuple[Receiver, ...]:
    """Create the receivers of the settings; drop messages pending for other destinations."""
    made = tuple(_made(webhooks, mails, outbox, context))
    outbox.keep_only(receiver.destination for receiver in made)
    return made


def _made(
    webhooks: Sequence[WebhookSettings],
    mails: Sequence[MailSettings],
    outbox: Outbox[str],
    context: DeliveryContext,
) -> Iterator[Receiver]:
    everyone = (*webhooks, *mails)
    unique = _unique_names()
    if webhooks:
        from rightsizer.notify.webhook import service as webhook  # noqa: PLC0415 - on use.

        for webhook_settings in webhooks:
            name = unique(webhook.name_of(webhook_settings))
            yield webhook.Webhook(
                name, webhook_settings, RoutedReceiver(webhook_settings, everyone), outbox, context
            )
    if mails:
        from rightsizer.notify.mail import service as mail  # noqa: PLC0415 - on use.

        for one in mails:
            name = unique(mail.name_of(one))
            yield mail.Mail(name, one, RoutedReceiver(one, everyone), outbox, context)


def _unique_names() -> Callable[[str], str]:
    count: Counter[str] = Counter()

    def unique(name: str) -> str:
        # A quote would end the label of a series.
        name = name.replace('"', "'")
        count[name] += 1
        return name if count[name] == 1 else f"{name} {count[name]}"

    return unique
