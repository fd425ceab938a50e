// What operators let containers be: images, limits, classes of egress and the hosts in them.
import { imagePatternFault } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { containerFaults, policyFor } from '../../../packages/server/src/domain/container/container-policy.ts'
import { egressDenied, egressRules } from '../../../packages/server/src/domain/container/egress-class.ts'
import { matchingHosts, parseHostPattern } from '../../../packages/server/src/domain/container/host-list.ts'
import { imageDenied } from '../../../packages/server/src/domain/container/image-policy.ts'
import { openPolicy } from '../../support/container-rig.ts'

const digest = `sha256:${'a'.repeat(64)}`

describe('images', () => {
  const images = ['registry.example.com/team/*', 'docker.io/library/busybox', 'localhost:5000/*']
  it.each([
    ['registry.example.com/team/app:1', true],
    ['registry.example.com/team/deep/app', true],
    ['registry.example.com/team', false],
    ['registry.example.com/teams/app', false],
    ['registry.example.com.evil.test/team/app', false],
    ['evil.test/registry.example.com/team/app', false],
    ['docker.io/library/busybox:1.36', true],
    ['docker.io/library/busybox-evil', false],
    ['localhost:5000/any', true],
    ['localhost/any', false],
  ])('%s: allowed is %s', (image, allowed) => {
    expect(imageDenied(image, { images, requireDigest: false }) === undefined).toBe(allowed)
  })

  it('a digest may be asked for, and an empty list allows nothing', () => {
    const image = 'registry.example.com/team/app'
    expect(imageDenied(`${image}:1`, { images, requireDigest: true })).toMatch(/digest/)
    expect(imageDenied(`${image}@${digest}`, { images, requireDigest: true })).toBeUndefined()
    expect(imageDenied(image, { images: [], requireDigest: false })).toMatch(/containerImages/)
  })

  it.each([
    '*',
    'registry.example.com',
    'registry.example.com/',
    'a/*/b',
    'http://a.b/c',
    'a.b/c:1',
    'a b/c',
    '',
  ])('%j is no pattern', (pattern) => expect(imagePatternFault(pattern)).toMatch(/registry/))
})

describe('the policy of one tenant', () => {
  const all = {
    ...openPolicy(),
    egress: { ...openPolicy().egress, lists: new Map([['partners', ['a.example.com']]]) },
  }
  const nothing = {
    images: null,
    digestsRequired: null,
    egress: null,
    maxMemoryMb: null,
    maxCpuMillis: null,
    maxPids: null,
  }

  it('is that of all where nothing is set', () => {
    expect(policyFor(all, nothing)).toEqual(all)
  })

  it('takes the place of that of all, and opens no class of egress that the server does not have', () => {
    const policy = policyFor(all, { ...nothing, images: [], maxPids: 8, egress: ['internet', 'made-up'] })
    expect(policy.images).toEqual([])
    expect(policy.maxPids).toBe(8)
    expect([policy.egress.internet, [...policy.egress.lists.keys()]]).toEqual([true, []])
    const closed = policyFor(
      { ...all, egress: { ...all.egress, internet: false } },
      { ...nothing, egress: ['internet'] },
    )
    expect(closed.egress.internet).toBe(false)
  })

  it('every fault of a handler is named at once', () => {
    const handler = {
      image: 'docker.io/library/busybox',
      limits: { memoryMb: 9_999, cpuMillis: 9_999, pids: 9_999, openFiles: 16 },
      egress: 'other',
    }
    expect(containerFaults(handler, all).map(({ pointer }) => pointer)).toEqual([
      '/image',
      '/limits/memoryMb',
      '/limits/cpuMillis',
      '/limits/pids',
      '/egress',
    ])
  })
})

describe('hosts of a list', () => {
  const patterns = [
    'api.example.com',
    '*.example.org',
    'db.example.net:5432',
    '[2001:db8::1]:443',
    '10.0.0.5',
  ].flatMap((text) => {
    const parsed = parseHostPattern(text)
    return parsed.ok ? [parsed.pattern] : []
  })
  it.each([
    ['api.example.com', 443, true],
    ['API.example.com.', 443, true],
    ['xapi.example.com', 443, false],
    ['a.api.example.com', 443, false],
    ['a.example.org', 443, true],
    ['a.b.example.org', 80, true],
    ['example.org', 443, false],
    ['evilexample.org', 443, false],
    ['db.example.net', 5432, true],
    ['db.example.net', 443, false],
    ['2001:db8::1', 443, true],
    ['10.0.0.5', 8080, true],
  ])('%s:%i: listed is %s', (host, port, listed) => {
    expect(matchingHosts(host, port, patterns).length > 0).toBe(listed)
  })

  it.each([
    '',
    '*',
    '*.com',
    'http://a.b',
    'a.b/c',
    'a b',
    'a.b:0',
    'a.b:99999',
    '*.10.0.0.1',
    '[zz]',
    'a..b',
  ])('%j is no host', (text) => expect(parseHostPattern(text).ok).toBe(false))
})

describe('classes of egress', () => {
  const base = openPolicy({ allowCidrs: ['10.0.0.0/8'], denyCidrs: ['93.184.216.0/24'] }).egress
  const classes = { ...base, lists: new Map([['partners', ['*.example.com', 'ssh.example.com:22']]]) }

  it('only what the server has may be named', () => {
    expect(egressDenied('internet', classes)).toBeUndefined()
    expect(egressDenied('partners', classes)).toBeUndefined()
    expect(egressDenied('none', { ...classes, internet: false })).toBeUndefined()
    expect(egressDenied('internet', { ...classes, internet: false })).toMatch(/containerInternet/)
    expect(egressDenied('other', classes)).toMatch(/none, internet, partners/)
    expect(egressRules('none', classes)).toBeUndefined()
    expect(egressRules('other', classes)).toBeUndefined()
  })

  it('internet is public addresses, whatever is opened for HTTP calls', () => {
    const rules = egressRules('internet', classes)
    expect(rules?.hostDenied('example.com', 443)).toBeUndefined()
    expect(rules?.addressDenied('example.com', 443, ['1.1.1.1'])).toBeUndefined()
    expect(rules?.addressDenied('example.com', 443, ['1.1.1.1', '10.0.0.1'])).toMatch(/10\.0\.0\.1/)
    expect(rules?.addressDenied('example.com', 443, ['93.184.216.34'])).toBeDefined()
    expect(rules?.hostDenied('10.0.0.1', 443)).toBeDefined()
    expect(rules?.hostDenied('2130706433', 80)).toBeDefined()
    expect(rules?.hostDenied('metadata.google.internal', 80)).toBeDefined()
    expect(rules?.hostDenied('example.com', 22)).toMatch(/egressPorts/)
  })

  it('a list is its hosts and ports, at addresses that the server may call', () => {
    const rules = egressRules('partners', classes)
    expect(rules?.hostDenied('a.example.com', 443)).toBeUndefined()
    expect(rules?.hostDenied('a.example.com', 22)).toMatch(/egressPorts/)
    expect(rules?.hostDenied('ssh.example.com', 22)).toBeUndefined()
    expect(rules?.hostDenied('example.org', 443)).toMatch(/partners/)
    expect(rules?.addressDenied('a.example.com', 443, ['10.0.0.1'])).toBeUndefined()
    expect(rules?.addressDenied('a.example.com', 443, ['192.168.0.1'])).toBeDefined()
    expect(rules?.addressDenied('a.example.com', 443, ['169.254.169.254'])).toBeDefined()
  })
})
