-- Children, for insert.lua: parents that wait for others take more of them.

-- Those parents by their handles; false for one that does not wait, or not here.
local families = {}

-- Whoever has the desk for itself may be counting children.
local function familyAt(handle)
  local body, story = of('j', handle), of('s', handle)
  if not body or isStub(body) or not story or not string.find(story, '^4.p') or not isFreeFor('') then return false end
  local position = seqIn(body)
  local waiting = string.match(call('HGET', named('parents'), position) or '', '^%[(%d+),null,')
  if not waiting or waiting == '0' then return false end
  return { position = format('%d', position), mark = parentMark(position), links = {}, ids = {} }
end

local function familyOf(handle)
  if families[handle] == nil then families[handle] = familyAt(handle) end
  return families[handle]
end

-- Whether the parents may take all of these children: none of them was there before.
local function areLinkable(groups, handles)
  for _, group in ipairs(groups) do
    local family = group.family
    if family then
      for i = group.first, group.first + group.size - 1 do
        family.ids[#family.ids + 1] = idOf(handles[i])
        family.links[#family.ids] = group.link
      end
    end
  end
  for _, family in pairs(families) do
    local links = allOf('link:' .. family.position, family.ids)
    for i = 1, #family.ids do
      if links[i] then return false end
    end
  end
  return true
end

-- Parents wait for as many more.
local function link(family)
  local fields, ranked = {}, {}
  for i, id in ipairs(family.ids) do
    fields[2 * i - 1] = id
    fields[2 * i] = family.links[i]
    ranked[2 * i - 1] = '0'
    ranked[2 * i] = id
  end
  inParts(fields, 'HSET', named('link:' .. family.position))
  inParts(ranked, 'ZADD', named('linked:' .. family.position))
  local waiting, state = string.match(call('HGET', named('parents'), family.position), '^%[(%d+)(,.*)$')
  state = string.gsub(state, '(\\"size\\":)(%d+)', function(name, size) return name .. format('%d', size + #family.ids) end)
  call('HSET', named('parents'), family.position, '[' .. format('%d', waiting + #family.ids) .. state)
end
