/**
 * What is asked of Kubernetes, in words of Belfry, on the official client, which is loaded only when this is
 * used. It speaks to the API server that the operator configured and to nothing else.
 */
import type * as Kubernetes from '@kubernetes/client-node'
import { BelfryError } from '@belfry/contract'
import type { Writable } from 'node:stream'
import { containerName, type Manifests } from './job-manifest.ts'

export type Pod = Kubernetes.V1Pod

export interface Labelled {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
}

export interface KubernetesApi {
  /** Makes both; what is there already under the name counts as made. */
  create(manifests: Manifests): Promise<void>
  /** The one pod of a Job; undefined: there is none (yet, or any more). */
  podOf(jobName: string): Promise<Pod | undefined>
  /** Writes the log of the container as it comes; resolves when it has ended. */
  followLog(podName: string, into: Writable, signal: AbortSignal): Promise<void>
  /** Tells the container to stop, with so many seconds until it is killed. */
  stopPod(podName: string, graceSeconds: number): Promise<void>
  /** Job, pod and Secret; what is not there counts as removed. */
  remove(name: string): Promise<void>
  jobs(labelSelector: string): Promise<readonly Labelled[]>
  secrets(labelSelector: string): Promise<readonly Labelled[]>
  /** Whether there is a NetworkPolicy of this name that selects these labels. */
  hasPolicy(name: string, selects: Readonly<Record<string, string>>): Promise<boolean>
}

export class KubernetesError extends Error {
  /** HTTP status; undefined: no answer came. */
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause: unknown) {
    super(message, { cause })
    this.name = 'KubernetesError'
    this.status = status
  }
}

/** Undefined `kubeconfig`: the account of the pod in which this runs. Throws `invalid_config`. */
export async function openKubernetes(
  namespace: string,
  kubeconfig: string | undefined,
): Promise<KubernetesApi> {
  const library = await load()
  const config = new library.KubeConfig()
  try {
    if (kubeconfig === undefined) config.loadFromCluster()
    else config.loadFromFile(kubeconfig)
  } catch (error) {
    const where = kubeconfig ?? 'the account of this pod'
    throw new BelfryError('invalid_config', `kubeconfig: ${where} cannot be read: ${String(error)}`, {
      cause: error,
    })
  }
  return createApi(library, config, namespace)
}

async function load(): Promise<typeof Kubernetes> {
  try {
    return await import('@kubernetes/client-node')
  } catch (error) {
    const message =
      'The setting kubernetesNamespace needs the package @kubernetes/client-node beside Belfry; install it.'
    throw new BelfryError('invalid_config', message, { cause: error })
  }
}

function createApi(
  library: typeof Kubernetes,
  config: Kubernetes.KubeConfig,
  namespace: string,
): KubernetesApi {
  const core = config.makeApiClient(library.CoreV1Api)
  const batch = config.makeApiClient(library.BatchV1Api)
  const network = config.makeApiClient(library.NetworkingV1Api)
  const log = new library.Log(config)

  async function asked<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw toKubernetesError(library, error)
    }
  }

  /** `status` is an answer that is as good as success. */
  async function unless(status: number, work: () => Promise<unknown>): Promise<void> {
    await asked(work).catch((error: unknown) => {
      if (!(error instanceof KubernetesError) || error.status !== status) throw error
    })
  }

  async function ownSecret(name: string, secret: Kubernetes.V1Secret): Promise<void> {
    const owned = structuredClone(secret)
    const owner = ownerOf(await batch.readNamespacedJob({ namespace, name }))
    owned.metadata = Object.assign(owned.metadata ?? {}, { ownerReferences: [owner] })
    await core.replaceNamespacedSecret({ namespace, name, body: owned })
  }

  return {
    async create({ secret, job, name }) {
      await unless(409, () => core.createNamespacedSecret({ namespace, body: secret }))
      await unless(409, () => batch.createNamespacedJob({ namespace, body: job }))
      // from here on the Secret goes with the Job, whoever removes that; else a sweep finds it by its labels
      await asked(() => ownSecret(name, secret)).catch(() => undefined)
    },
    async podOf(jobName) {
      const labelSelector = `batch.kubernetes.io/job-name=${jobName}`
      const { items } = await asked(() => core.listNamespacedPod({ namespace, labelSelector }))
      return items[0]
    },
    followLog: (podName, into, signal) => asked(() => followed(log, namespace, podName, into, signal)),
    stopPod: (name, gracePeriodSeconds) =>
      unless(404, () => core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds })),
    async remove(name) {
      const propagationPolicy = 'Background'
      await unless(404, () => batch.deleteNamespacedJob({ namespace, name, propagationPolicy }))
      await unless(404, () => core.deleteNamespacedSecret({ namespace, name }))
    },
    jobs: async (labelSelector) =>
      (await asked(() => batch.listNamespacedJob({ namespace, labelSelector }))).items.map(labelledOf),
    secrets: async (labelSelector) =>
      (await asked(() => core.listNamespacedSecret({ namespace, labelSelector }))).items.map(labelledOf),
    async hasPolicy(name, selects) {
      const found = await asked(() => network.readNamespacedNetworkPolicy({ namespace, name })).catch(
        (error: unknown) => {
          if (error instanceof KubernetesError && error.status === 404) return undefined
          throw error
        },
      )
      return found !== undefined && isOfEgress(found, selects)
    },
  }
}

function isOfEgress(
  { spec }: Kubernetes.V1NetworkPolicy,
  selects: Readonly<Record<string, string>>,
): boolean {
  const labels = spec?.podSelector?.matchLabels ?? {}
  const isOfThese = Object.entries(labels).every(([key, value]) => selects[key] === value)
  return isOfThese && (spec?.policyTypes?.includes('Egress') ?? false)
}

/** Resolves when the log has ended, or the signal fired. */
function followed(
  log: Kubernetes.Log,
  namespace: string,
  podName: string,
  into: Writable,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    into.once('close', resolve)
    // the client leaves errors of what it reads unheard, and they would end this process
    into.once('pipe', (source) => source.once('error', () => into.destroy()))
    log
      .log(namespace, podName, containerName, into, { follow: true })
      .then((stop) => signal.addEventListener('abort', () => stop.abort(), { once: true }))
      .catch(reject)
  })
}

const labelledOf = ({ metadata }: { metadata?: Kubernetes.V1ObjectMeta }): Labelled => ({
  name: metadata?.name ?? '',
  labels: metadata?.labels ?? {},
})

const ownerOf = ({ metadata }: Kubernetes.V1Job): Kubernetes.V1OwnerReference => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  name: metadata?.name ?? '',
  uid: metadata?.uid ?? '',
})

/** The server's own words where it has some; never what was sent. */
function toKubernetesError(library: typeof Kubernetes, error: unknown): KubernetesError {
  if (error instanceof KubernetesError) return error
  if (error instanceof library.ApiException) {
    const words = messageOf(error.body) ?? `it answered ${error.code}`
    return new KubernetesError(`Kubernetes refused it: ${words}`, error.code, error)
  }
  const why = error instanceof Error ? error.message : String(error)
  return new KubernetesError(`Kubernetes cannot be reached: ${why}`, undefined, error)
}

function messageOf(body: unknown): string | undefined {
  const status: unknown = typeof body === 'string' ? parsed(body) : body
  if (typeof status !== 'object' || status === null || !('message' in status)) return undefined
  return typeof status.message === 'string' ? status.message : undefined
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
