// A real engine for containers: Podman with runc, as a service on a socket of its own, with storage of its
// own and one image made of busybox, so that no registry is asked. It speaks the API of Docker.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createEngineClient,
  type EngineClient,
} from '../../packages/server/src/adapters/handlers/container/engine-client.ts'
import { pidExists } from '../../packages/server/src/postgres/embedded/process-identity.ts'

const startMs = 30_000

/** In every engine of the tests. */
export const testImage = 'localhost/belfry-test/busybox:1'
/** As that one, and wants a volume at /data. */
export const volumeImage = 'localhost/belfry-test/volume:1'

export type ContainerEngine = {
  readonly socketPath: string
  readonly client: EngineClient
  /** The root of `testImage`, as a tar. */
  readonly imageArchive: string
  /** Ends the service as a crash does; containers go on. */
  readonly kill: () => Promise<void>
  readonly start: () => Promise<void>
  /** Names of all containers, running or not. */
  readonly containers: () => Promise<readonly string[]>
  /** Names of those that run. */
  readonly running: () => Promise<readonly string[]>
  readonly volumes: () => Promise<readonly string[]>
  /** Throws where a container or a volume is left. */
  readonly mustBeEmpty: () => Promise<void>
  readonly close: () => Promise<void>
}

// none of it may reach a container: Podman's command line hands proxies on
const leak = {
  http_proxy: 'http://user:leak@10.0.0.1:1',
  HTTPS_PROXY: 'http://leak:1',
  DATABASE_URL: 'postgres://leak',
}

/** Of the engine, in a folder of its own. */
function settings(folder: string) {
  const config = join(folder, 'containers.conf')
  // this machine may not let even root raise its limits, which Podman does without these
  writeFileSync(config, '[containers]\ndefault_ulimits = ["nofile=1024:1024","nproc=4096:4096"]\n')
  const registries = join(folder, 'registries.conf')
  // registries of the tests speak plain HTTP
  writeFileSync(registries, '[[registry]]\nprefix = "localhost"\nlocation = "localhost"\ninsecure = true\n')
  const places = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')]
  const flags = [...places, '--runtime', 'runc', '--cgroup-manager', 'cgroupfs']
  const env = { ...process.env, ...leak, CONTAINERS_CONF: config, CONTAINERS_REGISTRIES_CONF: registries }
  return { flags, env }
}

/** `podman` is where test/support/services.ts found it. */
export async function startContainerEngine(podman: string): Promise<ContainerEngine> {
  removeLeftOvers()
  const folder = mkdtempSync(join(tmpdir(), `belfry-engine-${process.pid}-`))
  const socketPath = join(folder, 'engine.sock')
  const { flags, env } = settings(folder)
  const run = (...args: string[]) =>
    execFileSync(podman, [...flags, ...args], { env, stdio: 'pipe' }).toString()
  const archive = imageArchive(folder)
  run('import', '--change', 'ENV PATH=/bin', archive, testImage)
  const labelled = ['--change', 'VOLUME /data', '--change', 'LABEL dev.belfry.installation=test']
  run('import', '--change', 'ENV PATH=/bin', ...labelled, archive, volumeImage)
  const client = createEngineClient(socketPath)
  const service = [...flags, 'system', 'service', '--time=0', `unix://${socketPath}`]
  let child: ChildProcess | undefined

  const start = async (): Promise<void> => {
    child = spawn(podman, service, { env, stdio: 'ignore' })
    const deadline = performance.now() + startMs
    while ((await client.call('GET', '/_ping').catch(() => undefined)) !== 'OK') {
      if (performance.now() > deadline || child.exitCode !== null) throw new Error('podman did not start.')
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const kill = async (signal: NodeJS.Signals = 'SIGKILL'): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
  await start()
  return {
    socketPath,
    imageArchive: archive,
    client,
    kill: () => kill(),
    start,
    ...looks(client),
    async close() {
      run('rm', '--force', '--all', '--time', '0')
      client.close()
      await kill('SIGTERM')
      removeFolder(folder)
    },
  }
}

function looks(
  client: EngineClient,
): Pick<ContainerEngine, 'containers' | 'running' | 'volumes' | 'mustBeEmpty'> {
  const named = async (query: Record<string, string>): Promise<readonly string[]> => {
    const found = await client.call('GET', '/containers/json', { query })
    return (found as { Names: string[] }[]).flatMap(({ Names }) => Names).sort()
  }
  const containers = () => named({ all: '1' })
  const volumes = async (): Promise<readonly string[]> => {
    const found = (await client.call('GET', '/volumes')) as { Volumes: { Name: string }[] | null }
    return (found.Volumes ?? []).map(({ Name }) => Name).sort()
  }
  return {
    containers,
    running: () => named({}),
    volumes,
    async mustBeEmpty() {
      const left = [...(await containers()), ...(await volumes())]
      if (left.length > 0) throw new Error(`Left on the engine: ${left.join(', ')}`)
    },
  }
}

const folders = ['bin', 'tmp', 'etc', 'proc', 'sys', 'dev', 'run', 'var/tmp']

function imageArchive(folder: string): string {
  const root = join(folder, 'rootfs')
  for (const each of folders) mkdirSync(join(root, each), { recursive: true })
  // runc gives a tmpfs the mode of the folder that it covers
  for (const each of ['tmp', 'var/tmp']) chmodSync(join(root, each), 0o1777)
  copyFileSync('/bin/busybox', join(root, 'bin/busybox'))
  const names = execFileSync('/bin/busybox', ['--list']).toString().trim().split('\n')
  for (const name of names) if (name !== 'busybox') symlinkSync('busybox', join(root, 'bin', name))
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n')
  const archive = join(folder, 'image.tar')
  execFileSync('tar', ['-C', root, '--owner=0', '--group=0', '--numeric-owner', '-cf', archive, '.'])
  return archive
}

/** Of engines whose test was killed. */
function removeLeftOvers(): void {
  for (const each of readdirSync(tmpdir())) {
    const pid = Number(/^belfry-engine-(\d+)-/.exec(each)?.[1])
    if (pid > 0 && !pidExists(pid)) removeFolder(join(tmpdir(), each))
  }
}

/** Podman leaves its storage mounted. */
function removeFolder(folder: string): void {
  const mounts = execFileSync('cat', ['/proc/self/mounts']).toString().split('\n')
  const within = mounts
    .map((line) => line.split(' ')[1] ?? '')
    .filter((place) => place.startsWith(`${folder}/`))
  for (const place of within.toReversed()) {
    try {
      execFileSync('umount', ['--lazy', place], { stdio: 'ignore' })
    } catch {
      // it went by itself
    }
  }
  rmSync(folder, { recursive: true, force: true })
}
