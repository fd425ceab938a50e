// A registry of images on loopback, with the one image that it is given: just what an engine asks for to
// pull it.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type ImageRegistry = {
  /** `localhost:PORT`. */
  readonly host: string
  /** Of the manifest. */
  readonly digest: string
  /** Paths that were asked for. */
  readonly asked: readonly string[]
  readonly close: () => Promise<void>
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const json = (value: object): Buffer => Buffer.from(JSON.stringify(value))
const oci = 'application/vnd.oci.image'

/** `layer` is a tar of the root. */
export async function startImageRegistry(layer: string): Promise<ImageRegistry> {
  const tar = readFileSync(layer)
  const rootfs = { type: 'layers', diff_ids: [digestOf(tar)] }
  const config = json({ architecture: 'amd64', os: 'linux', config: { Env: ['PATH=/bin'] }, rootfs })
  const part = (mediaType: string, bytes: Buffer) => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  })
  const manifest = json({
    schemaVersion: 2,
    mediaType: `${oci}.manifest.v1+json`,
    config: part(`${oci}.config.v1+json`, config),
    layers: [part(`${oci}.layer.v1.tar`, tar)],
  })
  const blobs = new Map([config, tar].map((bytes) => [digestOf(bytes), bytes]))
  const asked: string[] = []
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    asked.push(path)
    const blob = blobs.get(path.split('/').at(-1) ?? '')
    const body = path.includes('/team/app/manifests/') ? manifest : path === '/v2/' ? json({}) : blob
    const type = body === manifest ? `${oci}.manifest.v1+json` : 'application/octet-stream'
    const headers = { 'content-type': type, 'docker-content-digest': digestOf(body ?? Buffer.alloc(0)) }
    response.writeHead(body === undefined ? 404 : 200, { ...headers, 'content-length': body?.length ?? 0 })
    response.end(request.method === 'HEAD' ? undefined : body)
  }).listen(0, 'localhost')
  await once(server, 'listening')
  return {
    host: `localhost:${(server.address() as AddressInfo).port}`,
    digest: digestOf(manifest),
    asked,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
