// Connection strings with several hosts: read as psql reads them, and never taken for something else.
import { describe, expect, it } from 'vitest'
import { readDatabaseUrl } from '../../packages/server/src/domain/database-url.ts'

const hostsOf = (text: string) => {
  const read = readDatabaseUrl(text)
  return 'fault' in read ? read.fault : read.urls
}

describe('a connection string', () => {
  it.each([
    ['postgres://db/belfry', ['postgres://db/belfry']],
    ['postgresql://u:p@db:5433/belfry', ['postgresql://u:p@db:5433/belfry']],
    ['postgres://u@%2Frun%2Fpg/belfry', ['postgres://u@%2Frun%2Fpg/belfry']],
    ['postgres://a:1,b:2/belfry', ['postgres://a:1/belfry', 'postgres://b:2/belfry']],
    // the login counts for each, also with a comma and an @ in the password
    [
      'postgres://u:p,@w@a,b:2/x?sslmode=require',
      ['a', 'b:2'].map((h) => `postgres://u:p,@w@${h}/x?sslmode=require`),
    ],
    ['postgres://[::1]:1,[::2]:2/x', ['postgres://[::1]:1/x', 'postgres://[::2]:2/x']],
    ['postgres:///x?host=a,b&port=1,2', ['postgres:///x?host=a&port=1', 'postgres:///x?host=b&port=2']],
    ['postgres:///x?host=a%2Cb&port=7', ['postgres:///x?host=a&port=7', 'postgres:///x?host=b&port=7']],
  ])('%s', (text, urls) => {
    expect(hostsOf(text)).toEqual(urls)
  })

  it('says which server is wanted', () => {
    expect(readDatabaseUrl('postgres://a,b/x?target_session_attrs=primary')).toMatchObject({
      wanted: 'primary',
    })
    expect(readDatabaseUrl('postgres://a,b/x')).toMatchObject({ wanted: undefined })
  })

  it.each([
    ['', /not a Postgres URL/],
    ['db:5432', /not a Postgres URL/],
    ['http://a,b/x', /not a Postgres URL/],
    ['postgres://a:x,b/x', /not a Postgres URL/],
    ['postgres:///x?host=a,b,c&port=1,2', /not a Postgres URL/],
    [
      'postgres://a,b/x?target_session_attrs=primry',
      /unknown target_session_attrs; it is one of any, read-write/,
    ],
    [`postgres://${'a,'.repeat(16)}a/x`, /more than 16 hosts/],
  ])('%s is refused, with the reason', (text, reason) => {
    expect(hostsOf(text)).toMatch(reason)
  })
})
