CREATE TABLE webhook_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX webhook_outbox_by_destination ON webhook_outbox (destination, number)
