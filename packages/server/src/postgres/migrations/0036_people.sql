-- People: members of a tenant, the links that invite them, and the sessions that they are signed in with.
--
-- A member belongs to one tenant, as everything does: whoever works in two is a member of each. Passwords and links are
-- kept as hashes, which the tenant's own role cannot read (grants by column): signing in is work of belfry_platform,
-- before the tenant is known.

CREATE TABLE belfry.member (
  tenant_id uuid NOT NULL REFERENCES belfry.tenant (id),
  id uuid NOT NULL,
  -- in lower case
  email text NOT NULL CHECK (length(email) BETWEEN 3 AND 254 AND email = lower(email)),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'operator', 'developer', 'viewer', 'auditor')),
  -- who says the role: the members of the tenant, or the groups that the issuer names at each sign-in
  role_from text NOT NULL DEFAULT 'members' CHECK (role_from IN ('members', 'issuer')),
  state text NOT NULL CHECK (state IN ('invited', 'active', 'disabled')),
  -- scrypt, with its parameters; null: no password
  password_hash text CHECK (length(password_hash) BETWEEN 1 AND 500),
  -- who it is at the OpenID provider; null: not known there yet
  issuer text CHECK (length(issuer) BETWEEN 1 AND 1000),
  subject text CHECK (length(subject) BETWEEN 1 AND 255),
  -- a link that is good for one use: SHA-256 of its secret
  invite_prefix text UNIQUE CHECK (length(invite_prefix) = 12),
  invite_hash bytea CHECK (length(invite_hash) = 32),
  invite_ends_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  last_sign_in_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT member_email UNIQUE (tenant_id, email),
  CONSTRAINT member_subject UNIQUE (tenant_id, issuer, subject),
  CHECK ((issuer IS NULL) = (subject IS NULL)),
  CHECK ((invite_prefix IS NULL) = (invite_hash IS NULL) AND (invite_hash IS NULL) = (invite_ends_at IS NULL))
);
-- a sign-in that names no tenant
CREATE INDEX member_by_email ON belfry.member (email);

CREATE TABLE belfry.person_session (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  member_id uuid NOT NULL,
  prefix text NOT NULL UNIQUE CHECK (length(prefix) = 12),
  secret_hash bytea NOT NULL CHECK (length(secret_hash) = 32),
  method text NOT NULL CHECK (method IN ('password', 'invite', 'oidc')),
  address text NOT NULL CHECK (length(address) <= 64),
  user_agent text NOT NULL CHECK (length(user_agent) <= 256),
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  last_seen_at timestamptz NOT NULL DEFAULT belfry.now(),
  -- without a request for so long it ends
  idle interval NOT NULL CHECK (idle > interval '0'),
  -- and then in any case
  ends_at timestamptz NOT NULL,
  ended_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, member_id) REFERENCES belfry.member (tenant_id, id) ON DELETE CASCADE
);
-- when it was last seen is noted by its id
CREATE UNIQUE INDEX person_session_id ON belfry.person_session (id);
CREATE INDEX person_session_of_member ON belfry.person_session (tenant_id, member_id, id);

ALTER TABLE belfry.member ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.person_session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.member TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY platform ON belfry.member TO belfry_platform USING (true) WITH CHECK (true);
CREATE POLICY app ON belfry.person_session TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY platform ON belfry.person_session TO belfry_platform USING (true) WITH CHECK (true);

-- everything but the hashes
GRANT SELECT (tenant_id, id, email, name, role, role_from, state, issuer, subject, invite_ends_at, created_at,
              last_sign_in_at),
      INSERT (tenant_id, id, email, name, role, state, invite_prefix, invite_hash, invite_ends_at),
      UPDATE (name, role, role_from, state, invite_prefix, invite_hash, invite_ends_at),
      DELETE
  ON belfry.member TO belfry_app;
GRANT SELECT (tenant_id, id, member_id, method, address, user_agent, created_at, last_seen_at, idle, ends_at, ended_at),
      UPDATE (ended_at)
  ON belfry.person_session TO belfry_app;
GRANT SELECT, INSERT, UPDATE (name, role, role_from, state, password_hash, issuer, subject, invite_prefix, invite_hash,
                              invite_ends_at, last_sign_in_at)
  ON belfry.member TO belfry_platform;
GRANT SELECT, INSERT, UPDATE (last_seen_at, ended_at), DELETE ON belfry.person_session TO belfry_platform;
