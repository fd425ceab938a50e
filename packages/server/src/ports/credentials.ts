/**
 * Who calls, and what he may do. An API key is `bfy_<prefix>_<secret>` with a checksum behind it: looked up
 * by its prefix, proved by its secret, of which only a hash is stored. The tenant comes from the credential
 * and from nowhere else.
 */
import type { Permission, PrincipalKind, Role, Scope } from '@belfry/contract'

/** Who acts: what the audit log names. */
export interface Principal {
  readonly kind: PrincipalKind
  readonly id: string
  readonly name: string
}

/** A caller whose key or session was checked. */
export interface Credential {
  /** Of the key, or of the session of a person who signed in. */
  readonly keyId: string
  /** The owner of the key, or the key itself where nobody owns it; or the person who signed in. */
  readonly principal: Principal
  /** Of the principal in this tenant; null: a key that nobody owns. */
  readonly role: Role | null
  /** All that may be done: of a key that of its scopes, bounded by the role of its owner. */
  readonly permissions: ReadonlySet<Permission>
  readonly tenantId: string
  readonly tenantName: string
  readonly tenantCreatedAtMs: number
  /** Of the key; none of a session. Names for people: `permissions` decides. */
  readonly scopes: readonly Scope[]
  /** Queues that a worker with it may serve; null: every one. */
  readonly queues: readonly string[] | null
}

/**
 * What the store knows of a key that may be used now: neither revoked nor expired, and its owner, if it has
 * one, not disabled.
 */
export interface StoredKey extends Omit<Credential, 'permissions'> {
  /** SHA-256 of the secret. */
  readonly secretHash: Uint8Array
  /** How long it may still be used, ms; null: no end. */
  readonly expiresInMs: number | null
}

export interface KeyDirectory {
  findByPrefix(prefix: string): Promise<StoredKey | undefined>
  /** Notes that the key was used. */
  touch(keyId: string): Promise<void>
}

/** Whose key has this prefix, whether it may be used or not: for the audit of refusals. */
export interface KnownKeys {
  byPrefix(
    prefix: string,
  ): Promise<{ readonly keyId: string; readonly tenantId: string; readonly name: string } | undefined>
}

export interface Authenticator {
  /** The caller with this key, or undefined if it is unknown, wrong, revoked or expired. */
  authenticate(key: string): Promise<Credential | undefined>
  /** Whether this very key was right when it was last looked up here; it may have been revoked since. */
  provedLately(key: string): boolean
  /** Takes a revoked key, or all keys of a principal, out of this process's memory at once. */
  forget(keyOrPrincipalId: string): void
}

/** A new key: `key` is shown once, `prefix` and `secretHash` are stored. */
export interface MintedKey {
  readonly key: string
  readonly prefix: string
  readonly secretHash: Uint8Array
}

export interface KeyMint {
  mint(): MintedKey
}
