"""Webhooks: changes of advice as JSON, open advice as alerts of an Alertmanager."""
