/**
 * Master keys in AWS KMS: they never leave it. A tenant's key is encrypted with the tenant as encryption
 * context, so that KMS itself refuses to open it for another, and its audit trail names the tenant. Only the
 * keys of the configuration are ever named in a call: what a row of the database says decides nothing.
 *
 * The SDK is loaded with the first call; `requestHandler` takes its calls out.
 */
import type * as KmsSdk from '@aws-sdk/client-kms'
import { BelfryError } from '@belfry/contract'
import type { KeyWrapper } from '../../ports/secrets.ts'

export interface KmsSettings {
  /** Ids, ARNs or aliases of keys; the first one wraps. */
  readonly keys: readonly [string, ...string[]]
  readonly region: string
  readonly endpoint: string
  readonly credentials:
    | 'chain'
    | { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string }
}

export interface KmsOptions {
  readonly settings: KmsSettings
  /** By which the calls go out. */
  readonly requestHandler: NonNullable<KmsSdk.KMSClientConfig['requestHandler']>
}

type Kms = { readonly sdk: typeof KmsSdk; readonly client: KmsSdk.KMSClient }

const idPrefix = 'kms:'
const contextOf = (tenantId: string) => ({ use: 'belfry-tenant-key', tenant: tenantId })

export function createKmsWrapper({ settings, requestHandler }: KmsOptions): KeyWrapper {
  const [newest, ...older] = settings.keys
  const ids = [`${idPrefix}${newest}`, ...older.map((key) => `${idPrefix}${key}`)] as const
  let loading: Promise<Kms> | undefined
  const load = (): Promise<Kms> =>
    (loading ??= import('@aws-sdk/client-kms').then((sdk) => ({
      sdk,
      client: new sdk.KMSClient({ ...clientSettings(settings), requestHandler }),
    })))

  async function call<T>(action: string, key: string, send: (kms: Kms) => Promise<T>): Promise<T> {
    try {
      return await send(await load())
    } catch (error) {
      throw fault(error, action, key)
    }
  }

  return {
    ids,
    opens: (wrapperId) => ids.includes(wrapperId),
    wrap: (plain, tenantId, abortSignal) =>
      call('Encrypt', newest, async ({ sdk, client }) => {
        const asked = { KeyId: newest, Plaintext: plain, EncryptionContext: contextOf(tenantId) }
        const { CiphertextBlob } = await client.send(new sdk.EncryptCommand(asked), { abortSignal })
        if (CiphertextBlob === undefined) throw new Error('it answered nothing')
        return { wrapperId: ids[0], bytes: CiphertextBlob }
      }),
    unwrap({ wrapperId, bytes }, tenantId, abortSignal) {
      const key = wrapperId.slice(idPrefix.length)
      return call('Decrypt', key, async ({ sdk, client }) => {
        const asked = { KeyId: key, CiphertextBlob: bytes, EncryptionContext: contextOf(tenantId) }
        const { Plaintext } = await client.send(new sdk.DecryptCommand(asked), { abortSignal })
        if (Plaintext === undefined) throw new Error('it answered nothing')
        return Plaintext
      })
    },
  }
}

function clientSettings({ region, endpoint, credentials }: KmsSettings) {
  const given = credentials === 'chain' ? {} : { credentials: { ...credentials } }
  return { region, endpoint, maxAttempts: 1, defaultsMode: 'standard' as const, ...given }
}

/** What follows from an answer of KMS, in words that name the fix. Holds nothing that was sent. */
function fault(error: unknown, action: string, key: string): BelfryError {
  const name = error instanceof Error ? error.name : 'Error'
  return new BelfryError('secrets_unavailable', `KMS does not open or seal with the key ${key}: ${why()}.`, {
    cause: error,
  })

  function why(): string {
    if (name === 'AbortError' || name === 'TimeoutError') return 'it did not answer in time'
    if (name === 'AccessDeniedException')
      return `these credentials may not kms:${action} with it; allow kms:Encrypt and kms:Decrypt on the key`
    if (name === 'NotFoundException') return 'there is no such key in this region; check secretKmsKeys'
    if (/^(Disabled|KMSInvalidState|KeyUnavailable)/.test(name))
      return 'the key is disabled or about to be deleted; enable it'
    if (/^(InvalidCiphertext|IncorrectKey)/.test(name))
      return 'what is stored was sealed by another key or for another tenant, or was changed'
    if (
      /^(UnrecognizedClient|InvalidClientTokenId|InvalidSignature|ExpiredToken|IncompleteSignature)/.test(
        name,
      )
    )
      return `AWS does not know the credentials (${name}); check secretKmsAccessKeyId and its secret`
    if (name === 'CredentialsProviderError')
      return 'no credentials were found on this machine; see secretKmsCredentials'
    const words = error instanceof Error && error.message !== '' ? error.message.replace(/\.$/, '') : name
    return words
  }
}
