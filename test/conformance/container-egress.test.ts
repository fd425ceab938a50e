// The network of a container that may reach something: through our proxy what the rules allow, around it
// nothing.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Dial } from '../../packages/server/src/security/egress/dial.ts'
import { createTunnels } from '../../packages/server/src/security/egress/tunnels.ts'
import { type ContainerEngine, startContainerEngine } from '../support/container-engine.ts'
import { type ContainerRig, createContainerRig, openPolicy } from '../support/container-rig.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock } from '../support/real-clock.ts'

const names: Readonly<Record<string, readonly string[]>> = {
  'api.example.com': ['93.184.216.34'],
  'inside.example.com': ['10.1.2.3'],
  'rebinding.example.com': ['93.184.216.34', '127.0.0.1'],
  'mapped.example.com': ['::ffff:169.254.169.254'],
}

const head = 'HTTP/1.1\\r\\n'
const connectAndGet =
  `printf "CONNECT api.example.com:443 ${head}\\r\\nGET /t ${head}host: x\\r\\n` +
  'connection: close\\r\\n\\r\\n" | nc 127.0.0.1 3128'

describeNeeding('podman', 'the way out of a container', (podman) => {
  let engine: ContainerEngine
  let rig: ContainerRig
  let target: Server
  const dialled: string[] = []

  beforeAll(async () => {
    engine = await startContainerEngine(podman)
    target = createServer((request, response) => {
      request.on('data', () => {})
      request.on('end', () => response.end(`${request.method} ${request.url} host=${request.headers.host}`))
    }).listen(0, '127.0.0.1')
    await once(target, 'listening')
    const { port } = target.address() as AddressInfo
    // nothing goes to the addresses that are named: every connection leads to the server of the test
    const dial: Dial = (asked, done) => {
      dialled.push(`${asked.host}:${asked.port}`)
      const socket = connect(port, '127.0.0.1', () => done(null, socket))
      return socket
    }
    const resolver = async (host: string) => {
      const found = names[host] ?? []
      return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    }
    const lists = new Map([['partners', ['*.example.com:443', 'inside.example.com:80']]])
    const { egress } = openPolicy({ allowCidrs: ['10.1.0.0/16'] })
    rig = createContainerRig(engine, {
      tunnels: createTunnels({ clock: realClock, resolver, dial }),
      policy: { egress: { ...egress, lists } },
    })
  }, 60_000)
  afterAll(async () => {
    await rig?.close()
    await engine?.close()
    target?.close()
  })
  afterEach(async () => {
    await engine.mustBeEmpty()
    dialled.length = 0
  })

  test('internet: a public host is reached by http and by CONNECT', async () => {
    const script = `
      wget -q -O - http://api.example.com/a?b=1; echo
      ${connectAndGet}`
    const { text } = await rig.sh(script, { egress: 'internet', result: 'none' })
    expect(text.split('\n')[0]).toBe('GET /a?b=1 host=api.example.com')
    expect(text).toContain('HTTP/1.1 200 Connection Established')
    expect(text).toContain('GET /t host=x')
    expect(dialled).toEqual(['api.example.com:80', 'api.example.com:443'])
  })

  test('internet: private, local and metadata addresses are refused before any connection', async () => {
    const places = [
      '127.0.0.1',
      '10.1.2.3',
      '169.254.169.254',
      '192.168.1.1',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '2130706433',
      '0x7f.1',
      'localhost',
      'metadata.google.internal',
      'inside.example.com',
      'rebinding.example.com',
      'mapped.example.com',
      'api.example.com:22',
      'api.example.com:6379',
    ]
    const script = places
      .map((place) => `wget -q -O - "http://${place}/" 2>&1 | head -c 200; echo`)
      .join('\n')
    const { lines } = await rig.sh(script, { egress: 'internet', result: 'none' })
    expect(dialled).toEqual([])
    const refused = lines.filter(({ fields }) => JSON.stringify(fields) === '{"stream":"belfry"}')
    expect(refused).toHaveLength(places.length)
    expect(rig.notes.filter(({ action }) => action === 'target.deny').length).toBe(places.length)
  })

  test('around the proxy there is nothing', async () => {
    const script = `ip -o link | wc -l; unset http_proxy
      nc -w 1 93.184.216.34 80 </dev/null && echo reached; ping -c 1 -W 1 1.1.1.1 >/dev/null && echo reached
      nslookup api.example.com 2>&1 | grep -q 93.184 && echo resolved
      nc -w 1 127.0.0.1 ${(target.address() as AddressInfo).port} </dev/null && echo reached; true`
    const { text } = await rig.sh(script, { egress: 'internet', result: 'none' })
    expect(text).toBe('1')
  })

  test('a list opens its hosts and ports alone, also such as the operator has inside', async () => {
    const script = `
      wget -q -O - http://inside.example.com/in; echo
      wget -q -O - http://api.example.com/no 2>&1; wget -q -O - http://other.test/no 2>&1
      ${connectAndGet} | tail -1`
    const { text } = await rig.sh(script, { egress: 'partners', result: 'none' })
    expect(text).toContain('GET /in host=inside.example.com')
    expect(text).toContain('GET /t host=x')
    expect(dialled).toEqual(['inside.example.com:80', 'api.example.com:443'])
  })

  test('a class that the operator does not have is refused before anything starts', async () => {
    const { result } = await rig.sh('true', { egress: 'nowhere' })
    expect(result).toMatchObject({ outcome: 'failed', retryable: false, error: { code: 'container_denied' } })
  })
})
