/**
 * Clients of Lambda, one for each tenant, role and region, each with credentials of that role alone. They
 * come from STS by the operator's key and the external id of the tenant, last an hour, and are fetched anew
 * some minutes before. Everything that the SDK would look for on the machine (credentials, region, endpoint)
 * is said, so that nothing of this machine's identity is ever used for a tenant.
 *
 * The SDK is loaded with the first call. Clients are bounded: the one unused for longest goes first.
 */
import type * as LambdaSdk from '@aws-sdk/client-lambda'
import type * as StsSdk from '@aws-sdk/client-sts'
import type { Clock } from '../../../ports/clock.ts'
import type { ExternalIds } from '../../../ports/external-ids.ts'

const roleSeconds = 3_600
/** A call may take a quarter of an hour, and its credentials are looked at when it begins. */
const renewBeforeMs = 300_000
const mostClients = 1_000
const assumeMs = 30_000

export interface AwsKeys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

export interface LambdaClientOptions {
  readonly keys: AwsKeys
  /** Undefined: those of AWS in the region. */
  readonly endpoint: string | undefined
  readonly stsEndpoint: string | undefined
  /** By which the calls go out. */
  readonly requestHandler: NonNullable<LambdaSdk.LambdaClientConfig['requestHandler']>
  readonly externalIds: ExternalIds
  readonly clock: Clock
}

export interface RoleName {
  readonly tenantId: string
  readonly roleArn: string
  readonly region: string
}

export type Sdk = { readonly lambda: typeof LambdaSdk; readonly sts: typeof StsSdk }

export interface RoleClient {
  readonly sdk: Sdk
  readonly client: LambdaSdk.LambdaClient
}

export interface LambdaClients {
  /** Rejects where the role cannot be assumed, as the SDK does. */
  of(role: RoleName, signal: AbortSignal): Promise<RoleClient>
  /** Its credentials were not taken: the next call assumes the role anew. */
  drop(role: RoleName): void
  close(): void
}

interface Entry {
  readonly opened: Promise<RoleClient>
  readonly untilMs: { value: number }
}

const keyOf = ({ tenantId, roleArn, region }: RoleName): string => `${tenantId} ${region} ${roleArn}`

/** Regions come out of ARNs whose form is checked and that the operator listed. */
function endpointOf(service: 'lambda' | 'sts', region: string): string {
  return `https://${service}.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
}

export function createLambdaClients(options: LambdaClientOptions): LambdaClients {
  const { clock } = options
  const entries = new Map<string, Entry>()
  const settings = settingsOf(options)
  let loading: Promise<Sdk> | undefined

  function open(role: RoleName): Entry {
    const untilMs = { value: Infinity }
    const opening = async (): Promise<RoleClient> => {
      loading ??= load()
      const sdk = await loading
      const startedMs = clock.monotonicMs()
      const { credentials, lastsMs } = await assume(options, sdk, role)
      untilMs.value = startedMs + Math.max(0, Math.min(lastsMs, roleSeconds * 1_000) - renewBeforeMs)
      const { region } = role
      const endpoint = options.endpoint ?? endpointOf('lambda', region)
      return { sdk, client: new sdk.lambda.LambdaClient({ ...settings, region, endpoint, credentials }) }
    }
    const opened = opening()
    const entry = { opened, untilMs }
    opened.catch(() => {
      if (entries.get(keyOf(role)) === entry) entries.delete(keyOf(role))
    })
    return entry
  }

  return {
    of(role, signal) {
      const key = keyOf(role)
      const known = entries.get(key)
      const entry = known !== undefined && clock.monotonicMs() < known.untilMs.value ? known : open(role)
      entries.delete(key)
      entries.set(key, entry)
      const oldest = entries.size > mostClients ? entries.keys().next().value : undefined
      if (oldest !== undefined) entries.delete(oldest)
      return orAborted(entry.opened, signal)
    },
    drop: (role) => void entries.delete(keyOf(role)),
    close: () => entries.clear(),
  }
}

async function load(): Promise<Sdk> {
  const [lambda, sts] = await Promise.all([import('@aws-sdk/client-lambda'), import('@aws-sdk/client-sts')])
  return { lambda, sts }
}

/** Of every client; nothing is repeated but by the retry policy of the job. */
const settingsOf = ({ requestHandler }: LambdaClientOptions) =>
  ({ maxAttempts: 1, defaultsMode: 'standard', requestHandler }) as const

interface Assumed {
  readonly credentials: Required<AwsKeys>
  readonly lastsMs: number
}

async function assume(
  options: LambdaClientOptions,
  { sts: { STSClient, AssumeRoleCommand } }: Sdk,
  { tenantId, roleArn, region }: RoleName,
): Promise<Assumed> {
  const ExternalId = await options.externalIds.externalIdOf(tenantId)
  if (ExternalId === undefined) throw new Error('The tenant of this run is not there any more.')
  const endpoint = options.stsEndpoint ?? endpointOf('sts', region)
  const credentials = { ...options.keys }
  const sts = new STSClient({ ...settingsOf(options), region, endpoint, credentials })
  const asked = {
    RoleArn: roleArn,
    RoleSessionName: `belfry-${tenantId}`,
    ExternalId,
    DurationSeconds: roleSeconds,
  }
  // of all that wait for it, so it ends with the signal of none
  const abortSignal = AbortSignal.timeout(assumeMs)
  const { Credentials: given } = await sts.send(new AssumeRoleCommand(asked), { abortSignal })
  const {
    AccessKeyId: accessKeyId,
    SecretAccessKey: secretAccessKey,
    SessionToken: sessionToken,
  } = given ?? {}
  if (accessKeyId === undefined || secretAccessKey === undefined || sessionToken === undefined)
    throw new Error('STS answered without credentials.')
  const lastsMs = (given?.Expiration?.getTime() ?? 0) - options.clock.nowMs()
  return { credentials: { accessKeyId, secretAccessKey, sessionToken }, lastsMs }
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  return Promise.race([work, aborted.promise]).finally(() => signal.removeEventListener('abort', abort))
}
