/**
 * Secrets, as the engine and the handlers see them. A handler asks for what its job names when an attempt
 * begins and gets the values or a fault; nothing else ever reads a value. What was resolved is masked in
 * whatever is kept of the attempt (domain/stream-mask.ts).
 */
import type { JobDefinition } from '@belfry/contract'

export interface SecretAsk {
  readonly tenantId: string
  readonly jobId: string
  /** Of the version that runs: a grant holds for the targets that it was given for. */
  readonly handler: JobDefinition['handler']
  /** Likewise: what an account was granted is for the versions that run as it, and not for older ones. */
  readonly runAs: JobDefinition['runAs']
  /** Only these of the secrets that the handler names; without it all of them. */
  readonly names?: readonly string[]
}

/**
 * `secret_missing`: there is none of this name. `secret_denied`: the job has no grant for it, or calls
 * another target than the grant was given for. `secrets_unavailable`: the store or the key that opens it
 * cannot be reached, or does not fit. The message names secret and fix, never a value.
 */
export interface SecretFault {
  readonly code: 'secret_missing' | 'secret_denied' | 'secrets_unavailable'
  readonly message: string
  /** False: the same attempt would end the same way. */
  readonly retryable: boolean
}

export type SecretAnswer =
  | { readonly ok: true; readonly values: ReadonlyMap<string, string> }
  | { readonly ok: false; readonly fault: SecretFault }

export interface SecretSource {
  /** Never throws and never rejects. A handler that names no secret gets an empty map, at no cost. */
  resolve(ask: SecretAsk): Promise<SecretAnswer>
  /**
   * What must stay out of what comes back from where a handler went: every version that is kept of each
   * secret that it names, whatever was rotated or revoked since. One that is gone is left out. Asked anew
   * each time. Throws `secrets_unavailable`.
   */
  masked(ask: Pick<SecretAsk, 'tenantId' | 'handler'>): Promise<readonly string[]>
}

/** The key of a tenant as it is stored: which key of the installation encrypted it, and the result. */
export interface WrappedKey {
  readonly wrapperId: string
  readonly bytes: Uint8Array
}

/**
 * The keys above those of the tenants: a ring of our own, or a key management service. A wrapped key is
 * bound to its tenant. Both throw BelfryError `secrets_unavailable` where the key cannot be reached, is not
 * here, or does not open what it is given.
 */
export interface KeyWrapper {
  /** Ids of the keys that it can open with; the first one wraps. */
  readonly ids: readonly [string, ...string[]]
  /** Whether this wrapper opens what that key wrapped. */
  opens(wrapperId: string): boolean
  wrap(key: Uint8Array, tenantId: string, signal: AbortSignal): Promise<WrappedKey>
  unwrap(wrapped: WrappedKey, tenantId: string, signal: AbortSignal): Promise<Uint8Array>
}

/** A version of a secret, as it is stored. */
export interface KeptSecret {
  readonly name: string
  readonly secretId: string
  readonly version: number
  readonly sealed: Uint8Array
}

/** What the store knows of a secret that an attempt asks for. */
export interface AskedSecret extends KeptSecret {
  /** Of the job, its workflow or its service account; none: it may not use the secret. */
  readonly grants: readonly { readonly targets: readonly string[] | null }[]
}

export interface SecretReader {
  /** The key of the tenant, and those of the secrets that exist. Throws as the database does. */
  read(ask: {
    readonly tenantId: string
    readonly jobId: string
    readonly runAs: string | null
    readonly names: readonly string[]
  }): Promise<{ readonly key: WrappedKey | undefined; readonly secrets: readonly AskedSecret[] }>
  /** Every version of those that exist. Throws as the database does. */
  readKept(ask: {
    readonly tenantId: string
    readonly names: readonly string[]
  }): Promise<{ readonly key: WrappedKey | undefined; readonly secrets: readonly KeptSecret[] }>
}

/**
 * Seals values with the key of their tenant, and opens them. Throws `secrets_unavailable`. What it knows of
 * keys stays in this process's memory for some minutes, so that a short absence of the key service costs
 * nothing.
 */
export interface Vault {
  /** Id of the key that wraps now; undefined: there is none, and no secret can be stored. */
  readonly currentId: string | undefined
  /** A new key for a tenant, wrapped. */
  newKey(tenantId: string): Promise<WrappedKey>
  /** The same key, wrapped by the current one. */
  rewrap(tenantId: string, key: WrappedKey): Promise<WrappedKey>
  /** Opens the key, so that what is sealed or opened with it next asks no key service. */
  warm(tenantId: string, key: WrappedKey): Promise<void>
  seal(key: WrappedKey, place: SealedPlace, value: string): Promise<Uint8Array>
  open(key: WrappedKey, place: SealedPlace, sealed: Uint8Array): Promise<string>
  /** Those of the ids that no key here can open. */
  unknown(wrapperIds: readonly string[]): readonly string[]
}

/** What a sealed value is bound to: moved anywhere else it does not open. */
export interface SealedPlace {
  readonly tenantId: string
  readonly secretId: string
  readonly version: number
}
