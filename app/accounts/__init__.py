"""Who is asking: instances, people, their groups and teams, local sign-in, bearer tokens. Rank 1: imports infra only.

A person is one row (instance, uid); the same uid on another instance is somebody else. Another way to prove who one is
(a proxy's headers, another server's sign-in) is a module here beside `login`, which ends in `login.begin(person)`.
A source of groups and teams implements `directory.Directory` in the folder of its platform.
"""
