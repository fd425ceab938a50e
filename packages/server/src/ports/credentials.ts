/**
 * Who calls. An API key is `bfy_<prefix>_<secret>`: looked up by its prefix, proved by its secret, of which
 * only a hash is stored. The tenant comes from the credential and from nowhere else.
 */
import type { Scope } from '@belfry/contract'

/** A caller whose key was checked. */
export interface Credential {
  readonly keyId: string
  readonly tenantId: string
  readonly tenantName: string
  readonly tenantCreatedAtMs: number
  readonly scopes: readonly Scope[]
  /** Queues that a worker with it may serve; null: every one. */
  readonly queues: readonly string[] | null
}

/** What the store knows of a key that may be used now: neither revoked nor expired. */
export interface StoredKey extends Credential {
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

export interface Authenticator {
  /** The caller with this key, or undefined if it is unknown, wrong, revoked or expired. */
  authenticate(key: string): Promise<Credential | undefined>
  /** Whether this very key was right when it was last looked up here; it may have been revoked since. */
  provedLately(key: string): boolean
  /** Takes a revoked key out of this process's memory at once. */
  forget(keyId: string): void
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
