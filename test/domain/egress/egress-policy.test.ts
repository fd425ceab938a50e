// Whole targets: names, ports, headers, and how far an operator's range reaches; with the pointer and the
// fix.
import { describe, expect, it } from 'vitest'
import {
  type EgressRanges,
  judgeConnect,
  judgeUrl,
  parsePolicy,
} from '../../../packages/server/src/domain/egress/egress-policy.ts'
import { headerFaults } from '../../../packages/server/src/domain/egress/header-rules.ts'

function policy(ranges: Partial<EgressRanges> = {}) {
  const parsed = parsePolicy({ allowCidrs: [], ...ranges })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults))
  return parsed.policy
}

const closed = policy()
const loopback = policy({ allowCidrs: ['127.0.0.0/8'] })

describe('judgeUrl', () => {
  it('says where, what and how to mend it', () => {
    expect(judgeUrl('http://0x7f.1:9000/', closed)).toEqual({
      code: 'invalid_target',
      pointer: '/handler/url',
      message:
        'leads to 127.0.0.1: a loopback address; use a public address, ' +
        'or ask the operator of this server to allow "127.0.0.1/32" or its network (setting egressAllow)',
    })
  })

  it.each([
    ['https://example.com/a', 'allowed'],
    ['https://example.com:8443/', 'allowed'],
    ['https://xn--bcher-kva.example/', 'allowed'],
    ['https://example.com:22/', 'port 22'],
    ['http://1.1.1.1:6379/', 'port 6379'],
    ['http://localhost/', 'inside a private network'],
    ['http://LOCALHOST./', 'inside a private network'],
    ['http://redis:8080/', 'inside a private network'],
    ['http://db.internal/', 'inside a private network'],
    ['http://nas.home.arpa/', 'inside a private network'],
    ['http://metadata.google.internal/', 'metadata service'],
    ['http://metadata.goog./', 'metadata service'],
    ['http://user@example.com/', 'credentials'],
    ['ftp://example.com/', 'scheme'],
    ['/relative', 'absolute'],
  ])('%s: %s', (url, part) => {
    expect(judgeUrl(url, closed)?.message ?? 'allowed').toContain(part)
  })

  it('leaves names and ports to the connection once a range is open, metadata names excepted', () => {
    expect(judgeUrl('http://localhost:3000/', loopback)).toBeUndefined()
    expect(judgeUrl('http://127.0.0.1:3000/', loopback)).toBeUndefined()
    expect(judgeUrl('http://10.0.0.1:3000/', loopback)?.message).toContain('private address')
    expect(judgeUrl('http://metadata.google.internal/', loopback)?.message).toContain('metadata')
  })
})

describe('judgeConnect', () => {
  it.each([
    ['a public name', closed, 'a.test', 443, ['93.184.216.34', '2606:2800::1'], 'allowed'],
    ['one bad address of several', closed, 'a.test', 443, ['93.184.216.34', '127.0.0.1'], 'loopback'],
    ['an opened address, any port, any name', loopback, 'localhost', 3000, ['127.0.0.1'], 'allowed'],
    ['an opened address beside one that is not', loopback, 'localhost', 80, ['127.0.0.1', '::1'], 'loopback'],
    ['a private name on a public address', loopback, 'db.internal', 443, ['1.1.1.1'], 'private network'],
    ['an unusual port on a public address', loopback, 'a.test', 25, ['1.1.1.1'], 'port 25'],
    [
      'only the ports that the operator names',
      policy({ allowPorts: [8000] }),
      'a.test',
      80,
      ['1.1.1.1'],
      '8000',
    ],
    [
      'no port if the operator names none',
      policy({ allowPorts: [] }),
      'a.test',
      80,
      ['1.1.1.1'],
      'no port is',
    ],
    [
      'an opened address with no port named',
      policy({ allowCidrs: ['10.0.0.0/8'], allowPorts: [] }),
      'db',
      5432,
      ['10.0.0.1'],
      'allowed',
    ],
    ['any port if the operator says so', policy({ allowPorts: '*' }), 'a.test', 25, ['1.1.1.1'], 'allowed'],
  ])('%s', (_name, rules, host, port, addresses, part) => {
    expect(judgeConnect(host, port, addresses, rules) ?? 'allowed').toContain(part)
  })
})

describe('headerFaults', () => {
  it('points to each header that a job may not send', () => {
    const faults = headerFaults({
      'X-Forwarded-For': '1.1.1.1',
      'Metadata-Flavor': 'Google',
      'webhook-id': 'x',
      'Belfry-Run-Id': 'x',
      HOST: 'x',
      'a/b': 'x',
      Authorization: 'Bearer x',
      'X-Team': 'x',
    })
    expect(faults.map(({ pointer }) => pointer)).toEqual([
      '/handler/headers/X-Forwarded-For',
      '/handler/headers/Metadata-Flavor',
      '/handler/headers/webhook-id',
      '/handler/headers/Belfry-Run-Id',
      '/handler/headers/HOST',
      '/handler/headers/a~1b',
    ])
    expect(new Set(faults.map(({ code }) => code))).toEqual(new Set(['invalid_target']))
  })
})
