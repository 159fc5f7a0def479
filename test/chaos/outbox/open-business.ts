import type { Business, BusinessPlace } from './business.js'
import { postgresBusiness } from './postgres-business.js'
import { sqliteBusiness } from './sqlite-business.js'

export function openBusiness(place: BusinessPlace): Business {
  return place.engine === 'sqlite' ? sqliteBusiness(place.file) : postgresBusiness(place.url, place.schema)
}
