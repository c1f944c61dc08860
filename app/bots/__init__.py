"""Who answers: bots, their names in a text, who may use them, and which of them a message addresses.

May import infra, accounts, settings, platforms and conversations. What decides stands apart from what stores:
`mentions` finds names in a text and knows no database, `access` is the one place that says who may use a bot, `resolve`
puts both together for a message, `store` keeps bots. A new scope is one more branch in access.may_use.
"""
