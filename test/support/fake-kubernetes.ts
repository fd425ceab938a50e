// A fake of the API of Kubernetes: what Belfry asks of it, with the semantics of the real one as far as
// that goes (names are taken once, selectors, owners, grace, logs that are followed). Nothing runs: the
// test says what the kubelet would do with each pod. `npm run kubernetes:check` asks a real API server.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1ContainerState, V1Job, V1ObjectMeta, V1Pod, V1PodStatus } from '@kubernetes/client-node'

/** What an object of the API is on the wire. */
type Data<Model> = { [Field in keyof Model]: Model[Field] }
interface Kept {
  readonly metadata?: Data<V1ObjectMeta>
}
type Kind = 'jobs' | 'networkpolicies' | 'pods' | 'secrets'

export interface FakePod {
  readonly pod: V1Pod
  /** Seconds of grace with which it was deleted; undefined: it was not. */
  readonly graceSeconds: () => number | undefined
  /** What the kubelet says of its container. */
  readonly is: (state: V1ContainerState) => void
  readonly says: (text: string) => void
  readonly ends: (exitCode: number, more?: { message?: string; reason?: string }) => void
  readonly evicted: () => void
  readonly vanishes: () => void
}

export interface FakeKubernetes {
  readonly kubeconfig: string
  readonly names: (kind: Kind) => readonly string[]
  readonly find: (kind: Kind, name: string) => Kept | undefined
  readonly put: (kind: Kind, item: Kept) => void
  /** The pod of the only Job, once it is there. */
  readonly pod: () => Promise<FakePod>
  /** From now on it answers 503, or again as before. */
  readonly break: (isBroken: boolean) => void
  /** How many requests it answered so. */
  readonly refused: () => number
  readonly close: () => Promise<void>
}

interface PodTail {
  text: string
  over: boolean
  graceSeconds: number | undefined
  readonly readers: Set<ServerResponse>
}

export const fakeNamespace = 'belfry-jobs'

export async function startFakeKubernetes(): Promise<FakeKubernetes> {
  const kept = new Map<Kind, Map<string, Kept>>(
    (['jobs', 'networkpolicies', 'pods', 'secrets'] as const).map((kind) => [kind, new Map()]),
  )
  const tails = new Map<string, PodTail>()
  const state = { broken: false, refused: 0, uid: 0 }
  const all = (kind: Kind): Map<string, Kept> => kept.get(kind) ?? new Map<string, Kept>()

  const server = createServer((request, response) => {
    void answer({ kept: all, tails, state }, request, response)
  })
  const port = await listening(server)
  const folder = mkdtempSync(join(tmpdir(), 'belfry-kubernetes-'))
  const kubeconfig = join(folder, 'config')
  writeFileSync(kubeconfig, kubeconfigOf(`http://127.0.0.1:${port}`))
  return {
    kubeconfig,
    names: (kind) => [...all(kind).keys()],
    find: (kind, name) => all(kind).get(name),
    put: (kind, item) => void all(kind).set(item.metadata?.name ?? '', item),
    async pod() {
      const deadlineMs = performance.now() + 5_000
      for (;;) {
        const [pod] = all('pods').values()
        if (pod !== undefined) return fakePod(pod, tails, all)
        if (performance.now() > deadlineMs) throw new Error('no pod was made')
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    },
    break: (isBroken) => {
      state.broken = isBroken
    },
    refused: () => state.refused,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function kubeconfigOf(server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'fake', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'belfry', user: {} }],
    contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'belfry', namespace: fakeNamespace } }],
    'current-context': 'fake',
  })
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

function fakePod(pod: V1Pod, tails: Map<string, PodTail>, all: (kind: Kind) => Map<string, Kept>): FakePod {
  const name = pod.metadata?.name ?? ''
  const tail = tails.get(name)
  const is = (state: V1ContainerState): void => {
    const before: Data<V1PodStatus> = pod.status ?? {}
    pod.status = { ...before, containerStatuses: [{ ...ofContainer, state }] }
  }
  const endLog = (): void => {
    if (tail === undefined) return
    tail.over = true
    for (const reader of tail.readers) reader.end()
  }
  return {
    pod,
    graceSeconds: () => tail?.graceSeconds,
    is,
    says(text) {
      if (tail === undefined) return
      tail.text += text
      for (const reader of tail.readers) reader.write(text)
    },
    ends(exitCode, more = {}) {
      endLog()
      is({ terminated: { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error', ...more } })
    },
    evicted() {
      endLog()
      pod.status = { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' }
    },
    vanishes() {
      endLog()
      all('pods').delete(name)
    },
  }
}

const ofContainer = { name: 'job', image: '', imageID: '', ready: false, restartCount: 0 }

interface World {
  readonly kept: (kind: Kind) => Map<string, Kept>
  readonly tails: Map<string, PodTail>
  readonly state: { broken: boolean; refused: number; uid: number }
}

/** Whatever the group: the kind says it. */
const pathForm =
  /^\/apis?\/[a-z0-9./]+\/namespaces\/([^/]+)\/(jobs|networkpolicies|pods|secrets)(?:\/([^/]+)(\/log)?)?$/

async function answer(world: World, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://fake')
  const [, namespace, kind, name, log] = pathForm.exec(url.pathname) ?? []
  if (world.state.broken) world.state.refused++
  if (world.state.broken) return status(response, 503, 'the server is currently unable to handle the request')
  if (namespace !== fakeNamespace || kind === undefined)
    return status(response, 404, `no path ${url.pathname}`)
  const items = world.kept(kind as Kind)
  if (name === undefined && request.method === 'GET')
    return send(response, 200, { items: [...items.values()].filter(selected(url)) })
  if (name === undefined) return create(world, kind as Kind, await bodyOf(request), response)
  const item = items.get(name)
  if (item === undefined) return status(response, 404, `${kind} "${name}" not found`)
  if (log !== undefined) return followed(world, name, response)
  if (request.method === 'PUT') {
    const body = await bodyOf(request)
    items.set(name, { ...body, metadata: { ...item.metadata, ...body.metadata } })
    return send(response, 200, items.get(name))
  }
  if (request.method === 'DELETE') return remove(world, kind as Kind, item, url, response)
  return send(response, 200, item)
}

async function bodyOf(request: IncomingMessage): Promise<Kept> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString()) as Kept
}

function selected(url: URL): (item: Kept) => boolean {
  const wanted = (url.searchParams.get('labelSelector') ?? '').split(',').map((part) => part.split('='))
  return ({ metadata }) => wanted.every(([key = '', value]) => metadata?.labels?.[key] === value)
}

function create(world: World, kind: Kind, item: Kept, response: ServerResponse): void {
  const name = item.metadata?.name ?? ''
  if (world.kept(kind).has(name)) return status(response, 409, `${kind} "${name}" already exists`)
  const made = { ...item, metadata: { ...item.metadata, uid: `uid-${world.state.uid++}` } }
  world.kept(kind).set(name, made)
  if (kind === 'jobs') makePod(world, made)
  send(response, 201, made)
}

function makePod(world: World, job: V1Job): void {
  const jobName = job.metadata?.name ?? ''
  const name = `${jobName}-x7k2p`
  const labels = { ...job.spec?.template.metadata?.labels, 'batch.kubernetes.io/job-name': jobName }
  const spec = job.spec?.template.spec
  const pod: V1Pod = { metadata: { name, labels }, ...(spec && { spec }), status: { phase: 'Pending' } }
  world.kept('pods').set(name, pod)
  world.tails.set(name, { text: '', over: false, graceSeconds: undefined, readers: new Set() })
}

function followed({ tails }: World, name: string, response: ServerResponse): void {
  const tail = tails.get(name)
  response.writeHead(200, { 'content-type': 'text/plain' })
  response.write(tail?.text ?? '')
  if (tail === undefined || tail.over) return void response.end()
  tail.readers.add(response)
  response.once('close', () => tail.readers.delete(response))
}

function remove(world: World, kind: Kind, item: Kept, url: URL, response: ServerResponse): void {
  const name = item.metadata?.name ?? ''
  if (kind === 'pods') {
    const tail = world.tails.get(name)
    if (tail !== undefined) tail.graceSeconds = Number(url.searchParams.get('gracePeriodSeconds') ?? 30)
    return send(response, 200, item)
  }
  world.kept(kind).delete(name)
  if (kind === 'jobs') {
    world.kept('pods').delete(`${name}-x7k2p`)
    for (const [key, secret] of world.kept('secrets'))
      if (secret.metadata?.ownerReferences?.some(({ uid }) => uid === item.metadata?.uid) === true)
        world.kept('secrets').delete(key)
  }
  send(response, 200, { kind: 'Status', status: 'Success' })
}

function send(response: ServerResponse, code: number, body: unknown): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function status(response: ServerResponse, code: number, message: string): void {
  send(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code })
}
